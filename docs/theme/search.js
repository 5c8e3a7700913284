// Search in the pages of this site, from a server or from disk: the index is a script beside this one.
const root = document.currentScript.dataset.root.replace(/\/$/, "");
const form = document.querySelector("[role=search]");
const query = document.getElementById("query");
const hits = document.getElementById("hits");
const MOST = 20;
let index = null;

function load() {
  index ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = `${root}/search_index.js`;
    script.onload = () => resolve(window.searchIndex);
    script.onerror = reject;
    document.head.append(script);
  });
  return index;
}

/** How often a word begins in a text, up to five times. */
function count(text, word) {
  const before = text.toLowerCase().split(word).slice(0, -1);
  return Math.min(5, before.filter((part, i) => (part || i === 0) && !/[\p{L}\p{N}]$/u.test(part)).length);
}

/** What a section is worth to the words, or 0 where one of them is missing. */
function rank({ page, title, text }, words) {
  const scores = words.map((word) => 20 * count(title, word) + 8 * count(page, word) + count(text, word));
  return scores.includes(0) ? 0 : scores.reduce((sum, score) => sum + score, title === page ? 2 : 0);
}

/** The part of a text around the first of the words, with the words marked. */
function excerpt(text, words) {
  const first = words.map((word) => text.toLowerCase().indexOf(word)).find((place) => place >= 0) ?? 0;
  const start = Math.max(0, text.lastIndexOf(" ", Math.max(0, first - 60)) + 1);
  const line = document.createElement("p");
  const marked = new RegExp(`(${words.map((word) => word.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")).join("|")})`, "giu");
  text.slice(start, start + 200).replace(/\S*$/u, "").split(marked).forEach((part, i) => {
    const piece = i % 2 ? document.createElement("mark") : document.createElement("span");
    piece.textContent = part;
    line.append(piece);
  });
  line.append(" …");
  return line;
}

function result(section, words) {
  const [article, heading, link] = ["article", "h3", "a"].map((name) => document.createElement(name));
  link.href = `${root}/${section.location}`;
  link.textContent = section.title === section.page ? section.page : `${section.page}: ${section.title}`;
  heading.append(link);
  article.append(heading, excerpt(section.text, words));
  return article;
}

async function show() {
  const words = query.value.toLowerCase().split(/\s+/u).filter(Boolean);
  hits.hidden = query.value.trim().length < 2;
  if (hits.hidden) return hits.replaceChildren();
  const ranked = (await load()).map((section) => [rank(section, words), section]).filter(([score]) => score);
  ranked.sort(([one], [other]) => other - one);
  const heading = document.createElement("h2");
  heading.textContent = ranked.length ? `${ranked.length} sections, the best first` : "No section has all of these words";
  hits.replaceChildren(heading, ...ranked.slice(0, MOST).map(([, section]) => result(section, words)));
}

form.hidden = false;
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  await show();
  hits.querySelector("a")?.focus();
});
query.addEventListener("input", show);
query.value = new URLSearchParams(location.search).get("q") ?? "";
show();
