// Updates an open page. After each change, the console sends an event. The script then fetches
// the page again and replaces only the differences. Focus, selection, scroll position, open
// details and typed text stay.
"use strict";

(() => {
  const main = document.querySelector("main");
  const clock = document.querySelector("header time");
  let source = null;
  let fetching = false;
  let again = false;

  // A hidden page closes its connection, because browsers limit the connections per site.
  function follow() {
    if (document.hidden) {
      leave();
    } else if (!source) {
      source = new EventSource(document.body.dataset.live);
      source.addEventListener("open", () => document.body.classList.remove("away"));
      source.addEventListener("error", () => document.body.classList.add("away"));
      source.addEventListener("change", (message) => hear(message, "live" in main.dataset));
      source.addEventListener("tick", (message) => hear(message, "ticks" in main.dataset));
    }
  }

  function leave() {
    if (source) source.close();
    source = null;
  }

  // The page shows UTC. The title has the local time.
  function localize() {
    for (const time of document.querySelectorAll("time[datetime]")) time.title = new Date(time.dateTime).toLocaleString();
  }

  function hear(message, refreshes) {
    clock.dateTime = message.data;
    clock.textContent = message.data.replace("T", " ").replace("Z", " UTC");
    localize();
    if (refreshes) refresh();
  }

  async function refresh() {
    again = fetching;
    if (fetching) return;
    fetching = true;
    try {
      const answer = await fetch(location.href);
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        merge(main, page.querySelector("main"));
        merge(clock, page.querySelector("header time"));
        localize();
      }
    } catch {
      // The platform is unreachable. EventSource reconnects.
    } finally {
      fetching = false;
    }
    if (again) refresh();
  }

  // merge updates old to equal fresh. It matches children by id, or by position without an id.
  function merge(old, fresh) {
    attributes(old, fresh);
    const kept = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
    const wanted = new Set([...fresh.children].map((child) => child.id));
    for (const [id, child] of kept) if (!wanted.has(id)) child.remove();
    let place = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const same = child.id ? kept.get(child.id) : alike(place, child) ? place : null;
      if (!same) {
        old.insertBefore(child, place);
        continue;
      }
      if (same === place) place = place.nextSibling;
      else old.insertBefore(same, place);
      if (same.nodeType === Node.ELEMENT_NODE) merge(same, child);
      else if (same.data !== child.data) same.data = child.data;
    }
    while (place) {
      const gone = place;
      place = place.nextSibling;
      gone.remove();
    }
  }

  function alike(old, fresh) {
    return old && old.nodeName === fresh.nodeName && !old.id;
  }

  // attributes keeps "open", which belongs to the reader.
  function attributes(old, fresh) {
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value && name !== "open") old.setAttribute(name, value);
    }
  }

  // The script enables the copy buttons. Without it, a click selects the whole command.
  document.body.classList.add("scripted");
  document.addEventListener("click", async ({ target }) => {
    if (!target.matches(".copy")) return;
    await navigator.clipboard.writeText(target.previousElementSibling.textContent);
    target.textContent = "Copied";
    setTimeout(() => { target.textContent = "Copy"; }, 2000);
  });

  document.addEventListener("visibilitychange", follow);
  addEventListener("pagehide", leave);
  addEventListener("pageshow", follow);
  localize();
  follow();
})();
