"use strict";

/* Shows one pair after the other. What a model wrote becomes text, never markup. This browser
   stores a vote, then the server does; its name never changes, so sent twice it counts once. */
(() => {
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement;
  const WORDS = { A: "A is better", B: "B is better", tie: "equally good", both_bad: "both bad" };
  const KEYS = { a: "A", b: "B", t: "tie", " ": "both_bad" };
  const LONGEST_PAUSE = 300;
  const BATCH = 100;
  const SHELF = "tournament-labels";

  let work = JSON.parse($("work").textContent);
  const isFile = work !== null;
  let key = ""; // says that this is the rater; the first vote makes the name theirs
  let queue = [];
  let times = [];
  let since = 0;
  let seen = 0;
  let sending = false;
  let answered = 0; // when votes arrived last: none that is sent later was given before
  let retry = 0;
  let refused = "";
  let offline = false;
  let unsaved = 0;

  /* A browser may keep nothing, such as one in private mode; the page works all the same. */
  const recall = (key) => {
    try {
      return localStorage.getItem(key);
    } catch {
      return null;
    }
  };
  const keep = (key, value) => {
    try {
      localStorage.setItem(key, value);
      return true;
    } catch {
      return false;
    }
  };

  const startTheme = () => {
    const button = $("theme");
    const prefersDark = matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
    const show = () => button.setAttribute("aria-pressed", String(isDark()));
    const known = recall("tournament-theme");
    if (known === "dark" || known === "light") root.dataset.theme = known;
    button.hidden = false;
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      keep("tournament-theme", root.dataset.theme);
      show();
    });
    prefersDark.addEventListener("change", show);
    show();
  };

  const shelf = () => `tournament-votes:${work.sample}:${work.rater}`;
  const stored = () => {
    try {
      const found = JSON.parse(recall(shelf()) ?? "[]");
      return Array.isArray(found) ? found : [];
    } catch {
      return [];
    }
  };
  const store = () => keep(shelf(), JSON.stringify(queue));

  /* What a reload without a connection needs: the pairs as they came, and what was done since. */
  const progress = () => `tournament-progress:${work.sample}:${work.rater}`;
  const keepPairs = async (answer) => {
    try {
      await (await caches.open(SHELF)).put(`work?rater=${encodeURIComponent(work.rater)}`, answer);
      await navigator.serviceWorker.register("worker.js");
    } catch {
      /* Only a page of this machine, or one with TLS, may keep pairs. */
    }
  };
  const keepProgress = () => {
    const { order, others, done, seconds } = work;
    keep(progress(), JSON.stringify({ order, others, done, seconds }));
  };
  const recallProgress = () => {
    try {
      return JSON.parse(recall(progress()) ?? "{}");
    } catch {
      return {};
    }
  };

  const newId = () =>
    [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

  const median = (values) => [...values].sort((one, other) => one - other)[values.length >> 1];
  const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

  const timeLeft = (count) => {
    const each = times.length ? median(times.slice(-15)) : work.seconds;
    if (!each || !count) return "";
    const minutes = (count * each) / 60;
    return minutes < 1 ? " · under 1 min left" : ` · about ${Math.round(minutes)} min left`;
  };

  const watch = () => {
    seen = 0;
    since = document.hidden ? 0 : performance.now();
  };
  const looked = () => seen + (since ? performance.now() - since : 0);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      seen = looked();
      since = 0;
    } else {
      since = performance.now();
      flush();
    }
  });

  const showSaved = () => {
    const waiting = queue.length;
    $("trouble").hidden = !refused;
    $("trouble").textContent = refused;
    if (isFile) {
      const words = work.done.length ? `${plural(work.done.length, "vote")} on this device` : "";
      $("saved").textContent = unsaved ? `${words}, not saved to a file yet` : words;
    } else if (offline) {
      $("saved").textContent = waiting
        ? `no connection: ${plural(waiting, "vote")} wait${waiting === 1 ? "s" : ""} here and will be sent`
        : "no connection: votes will wait here";
    } else {
      $("saved").textContent = waiting ? "saving …" : work.done.length ? "all votes saved" : "";
    }
  };

  const write = (id, text) => {
    const empty = !text.trim();
    $(id).textContent = empty ? "(empty)" : text;
    $(id).classList.toggle("empty", empty);
  };

  const show = (focus) => {
    const [id] = work.order;
    const done = work.done.length;
    const total = done + work.order.length;
    const pair = work.pairs[id];
    $("bar").hidden = false;
    $("bar").max = Math.max(total, 1);
    $("bar").value = done;
    $("progress").textContent = pair
      ? `${done + 1} of ${total}${timeLeft(work.order.length)}`
      : `${done} of ${total}`;
    $("pair").hidden = !pair;
    $("finished").hidden = Boolean(pair);
    $("votes").hidden = false;
    for (const button of document.querySelectorAll("[data-said]")) button.hidden = !pair;
    $("undo").disabled = !done;
    const [, said] = work.done.at(-1) ?? [];
    $("last").textContent = said ? `last vote: ${WORDS[said]}` : "";
    $("save").hidden = !isFile || !done;
    if (!isFile) keepProgress();
    showSaved();
    if (pair) {
      $("place").textContent = `, pair ${done + 1} of ${total}`;
      write("prompt", pair.prompt);
      write("response-a", pair.A);
      write("response-b", pair.B);
      for (const name of ["gold", "expected"]) {
        $(`${name}-part`).hidden = pair[name] === null;
        write(name, pair[name] ?? "");
      }
    } else {
      $("summary").textContent =
        `You have labelled ${plural(done, "pair")}.` +
        (isFile ? " Save your votes and send the file back." : " You can close this page.");
      $("more").hidden = !work.others.length;
      $("more").textContent = `Take over ${plural(work.others.length, "pair")} not labelled yet`;
    }
    watch();
    if (focus) {
      scrollTo(0, 0);
      $(pair ? "question" : "thanks").focus({ preventScroll: true });
    }
  };

  /* What others did meanwhile changes what comes next, never what is being read. */
  const merge = (state) => {
    const [current] = work.order;
    const known = (id) => work.pairs[id] && id !== current && !work.done.some(([other]) => other === id);
    work.order = [...(current ? [current] : []), ...state.order.filter(known)];
    work.others = state.others.filter(known);
    if (!current) show(false);
  };

  const flush = async () => {
    if (isFile || sending || !queue.length) return;
    sending = true;
    clearTimeout(retry);
    const batch = queue.slice(0, BATCH);
    const now = Date.now();
    const votes = batch.map(({ when, ...vote }) => ({ ...vote, age: Math.max(now - Math.max(when, answered), 0) }));
    let again = 0;
    try {
      const answer = await fetch("votes", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ sample: work.sample, rater: work.rater, key, votes }),
        keepalive: true,
      });
      if (answer.ok) {
        const sent = new Set(batch.map((vote) => vote.id));
        const state = await answer.json();
        answered = Date.now();
        queue = queue.filter((vote) => !sent.has(vote.id));
        store();
        offline = false;
        refused = "";
        if (!queue.length) merge(state);
      } else if (answer.status >= 500) {
        throw new Error(answer.status);
      } else {
        const { problems = [] } = await answer.json().catch(() => ({}));
        refused = `The server refused ${plural(batch.length, "vote")}; they are kept here. ${problems.join("; ")}`;
      }
    } catch {
      offline = true;
      again = 1500;
    }
    sending = false;
    showSaved();
    if (again) retry = setTimeout(flush, again);
    else if (queue.length && !refused) flush();
  };

  const enqueue = (pair, said) => {
    const vote = { id: newId(), pair, first: work.pairs[pair].first, said, when: Date.now() };
    if (said !== "undo") vote.seconds = Math.round(Math.min(looked() / 1000, 86400) * 10) / 10;
    const others = stored().filter((each) => !queue.some((own) => own.id === each.id));
    queue = isFile ? [...queue, vote] : [...others, ...queue, vote];
    unsaved += 1;
    if (!store() && isFile) refused = "This browser keeps nothing: save your votes before you close the page.";
    flush();
  };

  const vote = (said) => {
    const [id] = work.order;
    if (!work.pairs[id]) return;
    times.push(Math.min(looked() / 1000, LONGEST_PAUSE));
    enqueue(id, said);
    work.order.shift();
    work.done.push([id, said]);
    show(true);
  };

  const undo = () => {
    const last = work.done.pop();
    if (!last) return;
    times.pop();
    enqueue(last[0], "undo");
    work.order.unshift(last[0]);
    show(true);
  };

  const save = () => {
    const votes = queue.map(({ when, ...vote }) => ({ ...vote, at: new Date(when).toISOString() }));
    const values = {
      format: "tournament-votes",
      version: 1,
      sample: work.sample,
      rubric: work.rubric,
      rater: work.rater,
      votes,
    };
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(values, null, 1)], { type: "application/json" }));
    link.download = "votes.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    unsaved = 0;
    showSaved();
  };

  const fillRubric = () => {
    $("how").hidden = false;
    for (const { name, text } of work.rubrics) {
      const heading = document.createElement("h2");
      heading.textContent = name;
      const body = document.createElement("div");
      body.className = "text";
      body.textContent = text;
      $("rubrics").append(heading, body);
    }
  };
  const toggleRubric = () => {
    if ($("rubric").open) $("rubric").close();
    else $("rubric").showModal();
    if ($("rubric").open) $("rubric-heading").focus();
  };

  const startKeys = () => {
    document.addEventListener("keydown", (event) => {
      if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || !work) return;
      const key = event.key.toLowerCase();
      const isPressed = key === " " && event.target.closest("button, input, summary, a");
      if (isPressed || event.target.matches("input:not([type=checkbox])") || !$("keys").checked) return;
      if (key === "r" && !$("how").hidden) toggleRubric();
      else if ($("rubric").open || $("votes").hidden) return;
      else if (key === "u") undo();
      else if (Object.hasOwn(KEYS, key) && !$("pair").hidden) vote(KEYS[key]);
      else return;
      event.preventDefault();
    });
  };

  const replay = () => {
    /* Votes that this device has and the server has not, or that the file was given before. */
    for (const { pair, said } of queue) {
      if (!work.pairs[pair]) continue;
      work.done = work.done.filter(([id]) => id !== pair);
      work.order = work.order.filter((id) => id !== pair);
      if (said === "undo") work.order.unshift(pair);
      else work.done.push([pair, said]);
    }
  };

  const begin = () => {
    $("who").hidden = true;
    $("asked").textContent = `Which response is better${work.dimension ? ` on ${work.dimension}` : ""}?`;
    fillRubric();
    queue = stored();
    replay();
    show(true);
    flush();
  };

  const load = async (name) => {
    const address = new URL(location.href);
    const place = `work?rater=${encodeURIComponent(name)}`;
    const drawer = `tournament-key:${name}`;
    key = address.searchParams.get("key") ?? recall(drawer) ?? newId();
    try {
      const answer = await fetch(`${place}&key=${encodeURIComponent(key)}`, { cache: "no-store" }).catch(async (error) => {
        const kept = await caches.match(place, { cacheName: SHELF }).catch(() => null);
        if (!kept) throw error;
        offline = true;
        return kept;
      });
      const copy = answer.clone();
      const values = await answer.json();
      if (!answer.ok) throw new Error((values.problems ?? []).join("; "));
      work = values;
      if (offline) Object.assign(work, recallProgress());
      else keepPairs(copy);
    } catch (error) {
      $("trouble").hidden = false;
      $("trouble").textContent = `The pairs could not be loaded: ${error.message}. Reload the page to try again.`;
      return;
    }
    if (!address.searchParams.has("key")) {
      keep(drawer, key);
      address.searchParams.set("key", key);
    }
    address.searchParams.set("rater", work.rater);
    history.replaceState(null, "", address);
    begin();
  };

  startTheme();
  startKeys();
  for (const button of document.querySelectorAll("[data-said]"))
    button.addEventListener("click", () => vote(button.dataset.said));
  $("undo").addEventListener("click", undo);
  $("how").addEventListener("click", toggleRubric);
  $("close").addEventListener("click", toggleRubric);
  $("save").addEventListener("click", save);
  $("more").addEventListener("click", () => {
    work.order.push(...work.others.splice(0));
    show(true);
  });
  addEventListener("online", flush);
  addEventListener("beforeunload", (event) => {
    if (isFile ? unsaved : offline && queue.length) event.preventDefault();
  });

  if (isFile) begin();
  else {
    const name = new URL(location.href).searchParams.get("rater");
    if (name) load(name);
    else {
      $("who").hidden = false;
      $("who").addEventListener("submit", (event) => {
        event.preventDefault();
        load($("name").value);
      });
    }
  }
})();
