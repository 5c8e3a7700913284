"use strict";

/* Works on what is in the page alone. Whatever a model wrote becomes text, never markup. */
(() => {
  const root = document.documentElement;

  const remember = (theme) => {
    try {
      localStorage.setItem("tournament-theme", theme);
    } catch {
      /* A browser that keeps nothing still shows the page. */
    }
  };
  const remembered = () => {
    try {
      return localStorage.getItem("tournament-theme");
    } catch {
      return null;
    }
  };

  const startTheme = () => {
    const button = document.getElementById("theme");
    const prefersDark = matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
    const show = () => {
      const dark = isDark();
      root.classList.toggle("dark", dark);
      button.setAttribute("aria-pressed", String(dark));
    };
    const known = remembered();
    if (known === "dark" || known === "light") root.dataset.theme = known;
    button.hidden = false;
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      remember(root.dataset.theme);
      show();
    });
    prefersDark.addEventListener("change", show);
    show();
  };

  /* What a reader unfolds stays in the address, and so on paper. */
  const startFolds = () => {
    const parts = [...document.querySelectorAll("details.part")];
    const folded = parts.filter((part) => !part.open);
    const button = document.getElementById("unfold");
    const bare = () => location.href.split("#")[0];
    const keep = () => {
      const opened = folded.filter((part) => part.open);
      const isAll = opened.length === folded.length;
      if (button) button.textContent = isAll ? "Fold everything" : "Unfold everything";
      if (location.hash.startsWith("#battles?")) return;
      const names = isAll ? ["everything"] : opened.map((part) => part.id);
      if (names.length) history.replaceState(null, "", `#${names.join("+")}`);
      else if (location.hash.length > 1) history.replaceState(null, "", bare());
    };
    const unfold = (element) => {
      for (let part = element.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    };
    const follow = () => {
      if (location.hash === "#everything") for (const part of parts) part.open = true;
      const named = location.hash.slice(1).split("+").map((name) => document.getElementById(name)).filter(Boolean);
      for (const element of named) unfold(element);
      if (named.length === 1) named[0].scrollIntoView();
    };
    follow();
    addEventListener("hashchange", follow);
    for (const part of parts) part.addEventListener("toggle", keep);
    if (!button) return;
    button.hidden = false;
    button.addEventListener("click", () => {
      const open = folded.some((part) => !part.open);
      for (const part of folded) part.open = open;
    });
  };

  /* Whoever chooses a dimension chooses it for every table. */
  const startSwitches = () => {
    addEventListener("change", ({ target }) => {
      if (!target.matches(".switch > input")) return;
      for (const other of document.querySelectorAll(".switch > input")) {
        if (other.value === target.value) other.checked = true;
      }
    });
  };

  /* Only what scrolls is a stop for the Tab key. */
  const startScrolling = () => {
    const watched = new ResizeObserver((entries) => {
      for (const { target } of entries) {
        const scrolls = target.scrollWidth > target.clientWidth;
        if (!scrolls) for (const name of ["tabindex", "role", "aria-label"]) target.removeAttribute(name);
        else {
          const caption = (target.closest("figure") || target).querySelector("caption, figcaption");
          const part = target.closest(".part");
          const names = [part && part.querySelector("summary > :first-child"), caption].filter(Boolean);
          target.setAttribute("tabindex", "0");
          target.setAttribute("role", "region");
          target.setAttribute("aria-label", names.map((each) => each.textContent).join(": ") || "Table");
        }
      }
    });
    for (const box of document.querySelectorAll(".scroll")) watched.observe(box);
  };

  const make = (tag, attributes, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    element.append(...children.filter((child) => child !== null));
    return element;
  };

  const visible = (token) =>
    token === "" ? "nothing" : token.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/ /g, "␣");

  /* Cuts pieces of text, each with its mark or null, where a pattern matches. */
  const cut = (pieces, pattern) =>
    pieces.flatMap(([text, mark]) => text.split(pattern).filter(Boolean).map((part) => [part, mark]));

  const ITEM = /^\s*(?:[-*+•]|\d{1,3}[.)])\s+/;
  const kindOf = (line, fence) => {
    if (fence || /^\s*(?:```|~~~)/.test(line)) return "code";
    if (/^\s*\|.*\|/.test(line)) return "table";
    if (ITEM.test(line)) return "item";
    if (/^#{1,6}\s/.test(line)) return "heading";
    return /^>/.test(line) ? "quoted" : "plain";
  };

  /* Lines of pieces, each with what it is: code between fences, a row of a table, an item of a list. */
  const linesOf = (pieces) => {
    const lines = [];
    let line = [];
    for (const piece of cut(pieces, /(?<=\n)/)) {
      line.push(piece);
      if (!piece[0].endsWith("\n")) continue;
      lines.push(line);
      line = [];
    }
    if (line.length) lines.push(line);
    let fence = false;
    return lines.map((own) => {
      const text = own.map(([part]) => part).join("");
      const kind = kindOf(text, fence);
      if (/^\s*(?:```|~~~)/.test(text)) fence = !fence;
      return { pieces: own, text, kind };
    });
  };
  const markUp = ([text, mark]) => (mark ? make("mark", mark, text) : text);
  const showLine = ({ pieces, text, kind }) => {
    const line = make("div", { class: `line ${kind}` });
    if (kind === "table") {
      const cells = [];
      for (const piece of cut(pieces, /(?=\|)/)) {
        if (piece[0].startsWith("|") || !cells.length) cells.push(make("span", {}));
        cells.at(-1).append(markUp(piece));
      }
      line.append(...cells);
      line.classList.toggle("rule", /^[\s|:-]+$/.test(text));
    } else line.append(...pieces.map(markUp));
    if (kind === "item") line.style.setProperty("--indent", `${ITEM.exec(text)[0].length}ch`);
    return line;
  };
  /* Every character stays, so that what is read is what was judged; only the lines get their looks. */
  const showText = (pieces) => {
    const box = make("article", { class: "text", dir: "auto", tabindex: "0" });
    let group = null;
    let before = "";
    for (const line of linesOf(pieces)) {
      const isBlock = line.kind === "code" || line.kind === "table";
      if (isBlock && line.kind !== before) {
        group = make("div", { class: line.kind });
        box.append(group);
      }
      (isBlock ? group : box).append(showLine(line));
      before = line.kind;
    }
    return box;
  };

  const startBrowser = (data) => {
    const STEP = 5;
    const form = document.getElementById("filters");
    const list = document.getElementById("results");
    const count = document.getElementById("count");
    const more = document.getElementById("more");
    const columns = data.battles;
    const names = ["dimension", "entrant", "versus", "outcome", "orders", "size", "source", "prompt", "q"];
    const searchable = new Map();
    let found = [];
    let shown = 0;

    const textOf = (response) => response.parts.map((part) => part.text ?? part).join("");
    const battleAt = (index) => {
      const at = (column, values) => (columns[column][index] === null ? null : values[columns[column][index]]);
      return {
        dimension: at("dimension", data.dimensions),
        prompt: at("prompt", data.prompts),
        a: at("a", data.entrants),
        b: at("b", data.entrants),
        outcome: at("outcome", data.words),
        responses: [at("response_a", data.responses), at("response_b", data.responses)],
        verdicts: [at("verdict_ab", data.words), at("verdict_ba", data.words)],
        replies: [at("reply_ab", data.replies), at("reply_ba", data.replies)],
        reasons: [at("reason_ab", data.words), at("reason_ba", data.words)],
        isSame: texts[columns.response_a[index]] === texts[columns.response_b[index]],
        words: [wordsIn[columns.response_a[index]], wordsIn[columns.response_b[index]]],
      };
    };
    const texts = data.responses.map(textOf);
    const wordsIn = texts.map((text) => text.split(/\s+/).filter(Boolean).length);
    const winnerOf = (battle) =>
      battle.outcome === "a_wins" ? battle.a : battle.outcome === "b_wins" ? battle.b : null;
    const longerWon = (battle) => (battle.words[0] > battle.words[1]) === (battle.outcome === "a_wins");
    const LENGTHS = {
      longer: (battle) => winnerOf(battle) && battle.words[0] !== battle.words[1] && longerWon(battle),
      shorter: (battle) => winnerOf(battle) && battle.words[0] !== battle.words[1] && !longerWon(battle),
      alike: (battle) => Math.abs(battle.words[0] - battle.words[1]) <= 0.1 * Math.max(...battle.words),
    };
    /* What tells the entrants apart comes first; the order of the bank decides the rest. */
    const URGENCY = { a_wins: 0, b_wins: 0, inconsistent: 1, tie: 2, unjudged: 3, same_text: 4 };
    const urgencyOf = (index) => {
      const isSame = texts[columns.response_a[index]] === texts[columns.response_b[index]];
      return isSame ? 5 : URGENCY[data.words[columns.outcome[index]]];
    };
    const urgency = columns.prompt.map((_, index) => urgencyOf(index));

    const OUTCOMES = {
      decided: (battle) => winnerOf(battle) !== null,
      won: (battle, state) => winnerOf(battle) === state.entrant,
      lost: (battle, state) => winnerOf(battle) !== null && winnerOf(battle) !== state.entrant,
      tie: (battle) => battle.outcome === "tie",
      inconsistent: (battle) => battle.outcome === "inconsistent",
      same_text: (battle) => battle.outcome === "same_text",
      unjudged: (battle) => battle.outcome === "unjudged",
    };
    const ORDERS = {
      agree: (battle) => !["inconsistent", "same_text", "unjudged"].includes(battle.outcome),
      flipped: (battle) => battle.outcome === "inconsistent",
      first: (battle) => battle.verdicts.every((verdict) => verdict === "A"),
      second: (battle) => battle.verdicts.every((verdict) => verdict === "B"),
    };

    const wordsOf = (index, battle) => {
      if (!searchable.has(index)) {
        const texts = [battle.prompt.id, battle.prompt.text, battle.prompt.gold, battle.a, battle.b,
          ...battle.responses.map(textOf), ...battle.replies];
        searchable.set(index, texts.filter(Boolean).join("\n").toLowerCase());
      }
      return searchable.get(index);
    };

    const matches = (index, state, terms) => {
      const battle = battleAt(index);
      const sides = [battle.a, battle.b];
      if (state.dimension && battle.dimension !== state.dimension) return false;
      if (state.entrant && !sides.includes(state.entrant)) return false;
      if (state.versus && (state.versus === state.entrant || !sides.includes(state.versus))) return false;
      if (state.source && battle.prompt.source !== state.source) return false;
      if (state.prompt && ![state.prompt, ...state.prompt.split(/\s+/)].includes(battle.prompt.id)) return false;
      if (OUTCOMES[state.outcome] && !OUTCOMES[state.outcome](battle, state)) return false;
      if (ORDERS[state.orders] && !ORDERS[state.orders](battle)) return false;
      if (LENGTHS[state.size] && !LENGTHS[state.size](battle)) return false;
      if (state.differing && battle.isSame) return false;
      return terms.every((term) => wordsOf(index, battle).includes(term));
    };

    const inOrder = columns.prompt.map((_, index) => index).sort((one, other) => urgency[one] - urgency[other]);
    const readForm = () => {
      const state = { differing: form.elements.differing.checked };
      for (const name of names) state[name] = form.elements[name].value.trim();
      return state;
    };
    const writeHash = (state) => {
      const parameters = new URLSearchParams();
      for (const name of names) if (state[name]) parameters.set(name, state[name]);
      if (state.differing) parameters.set("differing", "1");
      const text = parameters.toString();
      return text ? `#battles?${text}` : "#battles";
    };
    const readHash = () => {
      if (!location.hash.startsWith("#battles?")) return false;
      const parameters = new URLSearchParams(location.hash.slice("#battles?".length));
      for (const name of names) form.elements[name].value = parameters.get(name) || "";
      form.elements.differing.checked = parameters.get("differing") === "1";
      return true;
    };

    /* The words of either text that stand in a longest common subsequence of the two are shared. */
    const MOST_WORDS = 1500;
    const ownWords = (battle) => {
      const [a, b] = battle.responses.map((response) => textOf(response).match(/\S+|\s+/g) || []);
      if (battle.isSame || a.length > MOST_WORDS || b.length > MOST_WORDS) return [null, null];
      const width = b.length + 1;
      const best = new Uint16Array((a.length + 1) * width);
      for (let i = a.length - 1; i >= 0; i -= 1) {
        for (let j = b.length - 1; j >= 0; j -= 1) {
          best[i * width + j] = a[i] === b[j]
            ? best[(i + 1) * width + j + 1] + 1
            : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
        }
      }
      const marked = [a.map((word) => [word, true]), b.map((word) => [word, true])];
      for (let i = 0, j = 0; i < a.length && j < b.length;) {
        if (a[i] === b[j]) {
          marked[0][i][1] = marked[1][j][1] = false;
          i += 1;
          j += 1;
        } else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) i += 1;
        else j += 1;
      }
      const kept = marked[0].filter(([word, own]) => !own && word.trim()).length;
      const all = Math.max(...marked.map((words) => words.filter(([word]) => word.trim()).length));
      // Where little is shared, everything would be marked, which says nothing.
      return kept >= 0.4 * all ? marked : [null, null];
    };
    let sought = null;
    const showPieces = (pieces) => {
      const cutUp = sought ? cut(pieces, sought) : pieces;
      const isHit = (text) => sought && text.replace(sought, "") === "";
      return showText(cutUp.map(([text, mark]) => [text, mark || (isHit(text) ? { class: "hit" } : null)]));
    };
    const OWN = { class: "own", title: "only in this response" };
    const showResponse = (response, words) => {
      if (!textOf(response)) {
        return make("article", { class: "text", tabindex: "0" }, make("em", {}, "empty"));
      }
      if (words && response.parts.every((part) => typeof part === "string")) {
        return showPieces(words.map(([word, own]) => [word, own && word.trim() ? OWN : null]));
      }
      return showPieces(response.parts.map((part) =>
        typeof part === "string"
          ? [part, null]
          : [part.text, { title: `the jury replaced ${visible(part.draft)}` }]));
    };
    const showReplacements = (response) => {
      const placed = response.parts.filter((part) => typeof part !== "string");
      const all = [
        ...placed.map((part) => ({ ...part, replacement: part.text, where: "marked above" })),
        ...response.unplaced.map((each) => ({ ...each, where: "not found in the text" })),
      ].sort((one, other) => one.position - other.position);
      if (!all.length) return null;
      const items = all.map((each) =>
        make("li", {}, `token ${each.position + 1}: `, make("code", {}, visible(each.draft)), " → ",
          make("code", {}, visible(each.replacement)), ` (${each.where})`));
      return make("details", {},
        make("summary", {}, `${all.length} ${all.length === 1 ? "token" : "tokens"} replaced by the jury`),
        make("ul", {}, ...items));
    };
    const factsOf = (response) =>
      [
        response.p_correct === null ? null : `p(correct) ${response.p_correct.toFixed(3)}`,
        `${textOf(response).split(/\s+/).filter(Boolean).length} words`,
        response.tokens === null ? null : `${response.tokens} tokens`,
        response.finish === "length" ? "cut off by the token cap" : null,
        response.not_sent ? `not sent: ${response.not_sent.join(", ")}` : null,
      ].filter(Boolean).join(" · ");

    const nameOf = (verdict, first, second) =>
      ({ A: `${first} is better`, B: `${second} is better`, TIE: "a tie" })[verdict] ||
      `no verdict (${verdict})`;
    const showReply = (battle, number) => {
      const [first, second] = number ? [battle.b, battle.a] : [battle.a, battle.b];
      const reply = battle.replies[number];
      return make("section", {},
        make("h4", {}, `${first} shown as A, ${second} as B`),
        make("p", {}, make("strong", {}, nameOf(battle.verdicts[number], first, second))),
        battle.reasons[number] ? make("p", { class: "note" }, battle.reasons[number]) : null,
        reply === null
          ? make("p", { class: "note" }, "The judge wrote nothing.")
          : showPieces([[reply, null]]));
    };
    const showSide = (name, response, words, won) =>
      make("section", won ? { class: "winner" } : {},
        make("h4", {}, name, won ? make("span", { class: "tag" }, "won") : null), showResponse(response, words),
        make("p", { class: "note" }, factsOf(response)), showReplacements(response));

    const sentenceOf = (battle) => {
      const winner = winnerOf(battle);
      if (winner) return `${winner} beats ${winner === battle.a ? battle.b : battle.a}`;
      if (battle.outcome === "tie") return `${battle.a} ties with ${battle.b}`;
      if (battle.outcome === "same_text") return `${battle.a} and ${battle.b} wrote the same text`;
      if (battle.outcome === "unjudged") return `${battle.a} and ${battle.b}: not judged`;
      return `${battle.a} and ${battle.b}: the two orders disagree`;
    };
    const fill = (body, battle) => {
      const { prompt } = battle;
      const [ownA, ownB] = ownWords(battle);
      const link = writeHash({ dimension: battle.dimension, entrant: battle.a, versus: battle.b, prompt: prompt.id });
      body.append(
        make("h3", {}, "Prompt"), showPieces([[prompt.text, null]]),
        make("p", { class: "note" },
          [prompt.gold && `Gold answer: ${prompt.gold}`,
            prompt.expected && `Expected behaviour: ${prompt.expected}`].filter(Boolean).join(" · ") || "No gold answer"),
        make("h3", {}, "Responses"),
        make("div", { class: "pair" },
          showSide(battle.a, battle.responses[0], ownA, battle.outcome === "a_wins"),
          showSide(battle.b, battle.responses[1], ownB, battle.outcome === "b_wins")),
        make("h3", {}, "What the judge wrote"),
        make("div", { class: "pair" }, showReply(battle, 0), showReply(battle, 1)),
        make("p", { class: "note" }, make("a", { href: link }, "Link to this battle"),
          " · keys: n for the next battle, p for the one before"));
    };
    const showBattle = (index) => {
      const battle = battleAt(index);
      const body = make("div", { class: "body" });
      const details = make("details", { class: "battle" },
        make("summary", {},
          make("span", { class: "outcome" }, sentenceOf(battle)), " ",
          make("span", { class: "tag" }, battle.dimension), " ",
          make("span", { class: "tag" }, `${battle.prompt.id}${battle.prompt.sample > 1 ? `, answer ${battle.prompt.sample}` : ""} · ${battle.prompt.source}`),
          battle.outcome === "inconsistent" ? make("span", { class: "tag flipped" }, "flipped") : null,
          make("span", { class: "opening" }, battle.prompt.text.slice(0, 160))),
        body);
      details.addEventListener("toggle", () => {
        if (details.open && !body.hasChildNodes()) fill(body, battle);
      });
      return make("li", {}, details);
    };

    const showMore = () => {
      const next = found.slice(shown, shown + STEP);
      list.append(...next.map(showBattle));
      shown += next.length;
      more.hidden = shown >= found.length;
      count.textContent = found.length
        ? `${found.length} of ${columns.prompt.length} battles; showing ${shown}.`
        : "No battle matches. Remove a filter.";
    };
    const search = () => {
      const state = readForm();
      for (const option of form.elements.outcome.options) {
        if (["won", "lost"].includes(option.value)) option.disabled = !state.entrant;
      }
      if (!state.entrant && ["won", "lost"].includes(state.outcome)) {
        form.elements.outcome.value = state.outcome = "";
      }
      const terms = state.q.toLowerCase().split(/\s+/).filter(Boolean);
      const escaped = terms.map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
      sought = terms.length ? new RegExp(`(${escaped.join("|")})`, "gi") : null;
      found = inOrder.filter((index) => matches(index, state, terms));
      shown = 0;
      list.replaceChildren();
      showMore();
      if (found.length === 1) list.querySelector("details").open = true;
      return state;
    };
    const searchAndKeep = () => history.replaceState(null, "", writeHash(search()));

    const offer = (name, values) => {
      for (const value of [...new Set(values)]) form.elements[name].append(make("option", { value }, value));
    };
    offer("dimension", data.dimensions);
    offer("entrant", data.entrants);
    offer("versus", data.entrants);
    offer("source", data.prompts.map((prompt) => prompt.source));

    const follow = () => {
      if (!readHash()) return;
      search();
      const heading = document.getElementById("battles-heading");
      heading.scrollIntoView();
      heading.focus({ preventScroll: true });
    };
    const step = (by) => {
      const items = [...list.querySelectorAll(":scope > li > details")];
      const now = items.findIndex((each) => each.contains(document.activeElement));
      const at = now < 0 ? 0 : now + by;
      if (at >= items.length && !more.hidden) {
        showMore();
        step(by);
        return;
      }
      const next = items[at];
      if (!next) return;
      if (now >= 0) items[now].open = false;
      next.open = true;
      next.querySelector("summary").focus();
      next.scrollIntoView({ block: "start" });
    };
    document.getElementById("battles").addEventListener("keydown", (event) => {
      if (event.target.matches("input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "n") step(1);
      else if (event.key === "p") step(-1);
      else return;
      event.preventDefault();
    });
    const read = document.getElementById("read");
    if (read) {
      read.addEventListener("click", (event) => {
        event.preventDefault();
        const first = list.querySelector("details");
        if (!first) return;
        first.open = true;
        first.querySelector("summary").focus();
        first.scrollIntoView({ block: "start" });
      });
    }
    let waiting = 0;
    form.addEventListener("input", (event) => {
      clearTimeout(waiting);
      if (["q", "prompt"].includes(event.target.name)) waiting = setTimeout(searchAndKeep, 150);
      else searchAndKeep();
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(searchAndKeep));
    more.addEventListener("click", () => {
      const first = shown;
      showMore();
      list.children[first].querySelector("summary").focus();
    });
    addEventListener("hashchange", follow);
    document.getElementById("browser").hidden = false;
    document.getElementById("unscripted").hidden = true;
    search();
    follow();
  };

  startTheme();
  startFolds();
  startSwitches();
  startScrolling();
  const store = document.getElementById("battle-data");
  if (store) startBrowser(JSON.parse(store.textContent));
})();
