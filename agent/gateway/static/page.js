// The one script of the page. Everything works without it: it saves clicks, and shows what changes meanwhile.
"use strict";

const WAIT_MS = 160; // after the last letter, before a search is asked for
const REFRESH_MS = 2000; // a piece of a page is fetched again at most so often
const LOST_MS = 3000; // without an answer, before the page says so
const PING_MS = 5 * 60 * 1000; // so that the page does not end while somebody has it open

const find = (id) => document.getElementById(id);

// --- the state line ---------------------------------------------------------------------------------------------

// What stands between back quotes is a command: the server's pages show it so, too.
function prose(words) {
  return words.split("`").map((piece, at) => (at % 2 ? Object.assign(document.createElement("code"), { textContent: piece }) : piece));
}

function showState(seen) {
  const line = find("state");
  if (!line) return;
  line.dataset.state = seen.state;
  const name = seen.name ?? seen.state.charAt(0).toUpperCase() + seen.state.slice(1);
  if (find("state-name").textContent !== name) find("state-name").textContent = name;
  find("state-words").replaceChildren(...prose(seen.words));
  const share = find("state-share");
  share.hidden = seen.share === null;
  share.value = seen.share ?? 0;
  const needs = find("state-needs");
  needs.hidden = !seen.needs.length;
  needs.replaceChildren(
    ...seen.needs.map((words) => {
      const item = document.createElement("li");
      item.replaceChildren(...prose(words));
      return item;
    }),
  );
}

let events = null;
let lost = null;

// An old word in the state line would be a lie.
function showLost() {
  showState({
    state: "error",
    name: "No answer",
    words: "Sapwood has ended, or has started again. Open it from the panel, or with `sapwood open`",
    share: null,
    needs: [],
  });
}

function listen() {
  if (events || document.hidden || !find("state")) return;
  events = new EventSource("/events");
  events.addEventListener("glance", (event) => {
    clearTimeout(lost);
    lost = null;
    showState(JSON.parse(event.data));
    refresh();
  });
  events.addEventListener("error", () => {
    lost ??= setTimeout(showLost, LOST_MS);
  });
}

function stopListening() {
  clearTimeout(lost);
  lost = null;
  events?.close();
  events = null;
}

document.addEventListener("visibilitychange", () => (document.hidden ? stopListening() : listen()));
window.addEventListener("pagehide", stopListening);
window.addEventListener("pageshow", listen);
setInterval(() => fetch("/ping", { cache: "no-store" }).catch(() => {}), PING_MS);

// --- pieces that change by themselves -----------------------------------------------------------------------------

let refreshedAt = 0;
let refreshing = null;

function refresh() {
  const piece = document.querySelector("[data-refresh]");
  if (!piece || refreshing) return;
  const wait = Math.max(0, refreshedAt + REFRESH_MS - Date.now());
  refreshing = setTimeout(async () => {
    try {
      // Whoever reads or presses something in it is not disturbed.
      if (document.hidden || piece.contains(document.activeElement)) return;
      const answer = await fetch(location.pathname + location.search, { cache: "no-store" });
      if (!answer.ok) return;
      const whole = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = whole.querySelector("[data-refresh]");
      if (fresh && !piece.contains(document.activeElement)) piece.replaceChildren(...fresh.childNodes);
    } catch {
      // The page has ended; the state line stays as it was.
    } finally {
      refreshedAt = Date.now();
      refreshing = null;
    }
  }, wait);
}

function parse(text) {
  const template = document.createElement("template");
  template.innerHTML = text; // our own templates, which escape everything
  return template.content;
}

// --- search as one types ------------------------------------------------------------------------------------------

const search = find("search");

if (search) {
  const query = find("q");
  const hits = find("hits");
  let timer = null;
  let asking = null;
  let last = new URLSearchParams(new FormData(search)).toString();

  const say = () => {
    find("count").textContent = hits.querySelector("[data-said]")?.dataset.said ?? "";
  };

  const ask = async () => {
    const wanted = new URLSearchParams([...new FormData(search)].filter(([, value]) => value));
    const words = new URLSearchParams(new FormData(search)).toString();
    if (words === last) return;
    last = words;
    asking?.abort();
    const mine = (asking = new AbortController());
    try {
      const answer = await fetch(`/search/hits?${wanted}`, { signal: mine.signal, cache: "no-store" });
      const text = await answer.text();
      if (mine.signal.aborted) return;
      if (answer.status === 403) return location.reload(); // the session is over: the page says what to do
      hits.replaceChildren(parse(text));
      say();
      history.replaceState(null, "", wanted.size ? `/?${wanted}` : "/");
      document.title = `${query.value.trim() ? `${query.value.trim()} – ` : ""}Search – Sapwood`;
    } catch (error) {
      if (error.name !== "AbortError") find("count").textContent = "Sapwood does not answer. Open it again from the panel, or with: sapwood open";
    }
  };

  say();
  if (search.dataset.live !== undefined) {
    const soon = () => {
      clearTimeout(timer);
      timer = setTimeout(ask, WAIT_MS);
    };
    query.addEventListener("input", soon);
    search.querySelector(".filters").addEventListener("input", soon);
    search.addEventListener("submit", (event) => {
      event.preventDefault();
      clearTimeout(timer);
      ask();
    });
  }
  query.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && query.value) {
      event.preventDefault();
      query.value = "";
      query.dispatchEvent(new Event("input", { bubbles: true }));
    }
  });
  if (!query.value && matchMedia("(hover: hover)").matches) query.focus();
}

// --- keys and forms -----------------------------------------------------------------------------------------------

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  const at = document.activeElement;
  if (at && (at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName))) return;
  event.preventDefault();
  const query = find("q");
  if (query) {
    query.focus();
    query.select();
  } else {
    location.assign("/");
  }
});

document.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (event.defaultPrevented || !button?.dataset.busy) return;
  // After the form is on its way, or what the button says would not go with it.
  setTimeout(() => {
    button.disabled = true;
    button.textContent = button.dataset.busy;
  });
});

function openTarget() {
  const target = location.hash.length > 1 && find(decodeURIComponent(location.hash.slice(1)));
  const group = target && target.closest("details");
  if (group) {
    group.open = true;
    target.scrollIntoView();
  }
}

openTarget();
window.addEventListener("hashchange", openTarget);
