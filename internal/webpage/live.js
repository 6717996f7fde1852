// Updates an open page. The script fetches the page again and replaces only the differences.
// Focus, selection, scroll position, open details and typed text stay. It does so after each
// event of the server at data-live, or if main has data-every, after this number of seconds. It
// also continues a form with data-continue until the page has none.
"use strict";

(() => {
  const main = document.querySelector("main");
  const clock = document.querySelector("header time");
  const every = 1000 * Number(main.dataset.every ?? 0);
  let read = performance.now(); // when the contents of the page arrived
  let took = 0; // the duration of the last fetch
  let source = null;
  let fetching = false;
  let again = false;

  // A hidden page closes its connection, because browsers limit the connections per site.
  function follow() {
    if (!document.body.dataset.live) return;
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
    if (!document.body.dataset.live) return;
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
    const began = performance.now();
    try {
      const shown = location.href;
      const response = await fetch(shown);
      if (response.ok && shown === location.href) show(await response.text());
      if (every) document.body.classList.toggle("away", !response.ok);
    } catch {
      if (every) document.body.classList.add("away"); // otherwise EventSource reconnects
    } finally {
      took = performance.now() - began;
      fetching = false;
    }
    if (again) refresh();
  }

  function show(text) {
    const page = new DOMParser().parseFromString(text, "text/html");
    merge(main, page.querySelector("main"));
    merge(clock, page.querySelector("header time"));
    localize();
    read = performance.now();
  }

  // A page with data-every refreshes unless its reader uses a form, selects text or has paused it.
  // A slow server gets 20 times as long to rest as it has worked.
  const age = document.querySelector("header .age");
  const pause = document.querySelector("header .pause");

  function look() {
    const seconds = Math.round((performance.now() - read) / 1000);
    age.textContent = seconds < 2 * every / 1000 ? "" : ` ${seconds} s ago`;
    const used = main.querySelector(":is(form, .acts):is(:hover, :focus-within)") || !getSelection().isCollapsed;
    if (!document.hidden && !used && !paused() && performance.now() - read >= Math.max(every, 20 * took)) refresh();
  }

  const paused = () => sessionStorage.getItem("refresh") === "off";
  const name = () => { pause.textContent = paused() ? "Refresh" : "Pause"; };

  if (every && pause) {
    name();
    pause.addEventListener("click", () => {
      sessionStorage.setItem("refresh", paused() ? "on" : "off");
      name();
      if (!paused()) refresh();
    });
    setInterval(look, 1000);
  }

  // carryOn sends the form with data-continue until the page has none, its reader stops it, or the
  // server fails.
  let stopped = false;

  async function carryOn() {
    for (let form; !stopped && (form = main.querySelector("form[data-continue]"));) {
      const response = await fetch(new URL(form.getAttribute("action"), location.href), { method: "POST", body: new URLSearchParams(new FormData(form)) });
      if (!response.ok) break;
      history.replaceState(null, "", response.url);
      show(await response.text());
    }
    document.body.classList.remove("running");
  }

  if (main.querySelector("form[data-continue]")) {
    document.body.classList.add("running");
    carryOn().catch(() => document.body.classList.remove("running"));
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
    if (target.matches(".stop")) stopped = true;
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
