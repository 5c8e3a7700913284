"use strict";

/* Keeps the page that asks, for a reload without a connection; the pairs are kept by the page itself.
   It asks the network first, and goes away where another server answers at this address. */
const SHELF = "tournament-labels";
const PAGE = "/";

const fetched = async (request) => {
  const answer = await fetch(request);
  if (answer.type !== "basic" || !answer.ok) return answer;
  if (answer.headers.get("X-Tournament") === "labels") await (await caches.open(SHELF)).put(PAGE, answer.clone());
  else {
    await caches.delete(SHELF);
    await registration.unregister();
  }
  return answer;
};

const shown = async (request) => {
  try {
    return await fetched(request);
  } catch (error) {
    const kept = await caches.match(PAGE, { cacheName: SHELF });
    if (!kept) throw error;
    return kept;
  }
};

addEventListener("install", (event) => event.waitUntil(fetched(PAGE).then(() => skipWaiting())));
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("fetch", (event) => {
  const isPage = event.request.mode === "navigate" && new URL(event.request.url).pathname === PAGE;
  if (isPage) event.respondWith(shown(event.request));
});
