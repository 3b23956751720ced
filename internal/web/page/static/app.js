// app.js makes pages quicker to use. Every page works without it: it swaps <main>
// instead of loading a page, asks before a form that cannot be undone, copies, keeps
// relative times right, and moves by keyboard.

const main = () => document.getElementById("main");
const words = document.body.dataset; // of the catalogue
const spans = JSON.parse(words.spans ?? "[]"); // the units of relative times, of the server
const status = (text) => { document.getElementById("status").textContent = text; };

// --- Pages: a link or form of this audience swaps <main> ---

const base = document.body.dataset.base;
let visits = 0; // the number of loads; an older one that comes late is dropped
let loading = 0; // the number of loads that have not ended

const within = (url) => base && url.origin === location.origin && (url.pathname === base || url.pathname.startsWith(base + "/"));

// load fetches a page and shows it. The browser itself loads a response that is no page of
// this audience.
async function load(url, { push = true, body, keep } = {}) {
  const visit = ++visits;
  loading++;
  main().setAttribute("aria-busy", "true");
  try {
    const response = await fetch(url, { method: body ? "POST" : "GET", body, headers: { Accept: "text/html" }, credentials: "same-origin" });
    const type = response.headers.get("Content-Type") ?? "";
    const landed = new URL(response.url);
    if (!type.startsWith("text/html") || !within(landed)) { location.assign(landed); return; }
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (visit !== visits) return;
    show(page, landed, push, keep);
  } catch {
    if (body) { status(words.unsent); main().removeAttribute("aria-busy"); return; }
    location.assign(url);
  } finally {
    loading--;
    if (again && !loading) renew();
  }
}

function show(page, url, push, keep) {
  const next = page.getElementById("main");
  if (!next || page.documentElement.lang !== document.documentElement.lang) { location.assign(url); return; }
  main().replaceWith(document.adoptNode(next));
  document.title = page.title;
  const section = main().dataset.section;
  for (const a of document.querySelectorAll(".sidebar nav a")) {
    a.toggleAttribute("aria-current", a.dataset.section === section);
    if (a.dataset.section === section) a.setAttribute("aria-current", "page");
  }
  const menu = document.getElementById("menu");
  if (menu) menu.checked = false;
  const back = document.querySelector(".sidebar [name=back]"); // preferences lead back to the page that is shown
  if (back && within(url)) back.value = url.pathname + url.search;
  if (push && url.href !== location.href) history.pushState(null, "", url);
  if (!keep) {
    scrollTo(0, 0);
    (main().querySelector("[autofocus], [aria-invalid=true]") ?? main()).focus({ preventScroll: true });
  }
  status(page.title);
  enhance(main());
  document.dispatchEvent(new Event("page"));
}

document.addEventListener("click", (e) => {
  const a = e.target.closest("a[href]");
  if (!a || e.defaultPrevented || e.button || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey || a.target || a.hasAttribute("download")) return;
  const url = new URL(a.href);
  if (!within(url) || url.hash && url.pathname === location.pathname && url.search === location.search) return;
  e.preventDefault();
  load(url);
});

document.addEventListener("submit", async (e) => {
  const form = e.target;
  const method = form.getAttribute("method") ?? "get"; // form.method may be a field of that name
  if (e.defaultPrevented || method === "dialog" || !base) return;
  // A question may have the values of fields as {name}.
  const question = (e.submitter?.dataset.confirm ?? form.dataset.confirm)?.replace(/\{(\w+)\}/g, (text, name) => form.elements[name]?.value || text);
  if (question && !form.dataset.confirmed) {
    e.preventDefault();
    if (await confirmed(question, e.submitter ?? form.querySelector("button"))) { form.dataset.confirmed = "yes"; form.requestSubmit(e.submitter); }
    return;
  }
  const url = new URL(e.submitter?.getAttribute("formaction") ?? form.getAttribute("action") ?? location.href, location.href);
  if (!within(url)) return;
  e.preventDefault();
  const data = new FormData(form, e.submitter);
  if (method === "get") {
    url.search = "";
    for (const [name, value] of data) if (value !== "") url.searchParams.append(name, value);
    load(url);
    return;
  }
  const buttons = form.querySelectorAll("button:enabled");
  for (const button of buttons) button.disabled = true; // no second click
  await load(url, { body: form.getAttribute("enctype") === "multipart/form-data" ? data : new URLSearchParams(data) });
  for (const button of buttons) button.disabled = false; // if the form is still there, it was not sent
  delete form.dataset.confirmed;
});

addEventListener("popstate", () => load(location.href, { push: false }));

// confirmed asks the question of a form, or of its button, in a dialog.
function confirmed(question, button) {
  const dialog = document.createElement("dialog");
  const text = document.createElement("p");
  text.textContent = question;
  const actions = document.createElement("div");
  actions.className = "actions";
  const yes = document.createElement("button"), no = document.createElement("button");
  yes.className = "primary";
  yes.textContent = button.textContent;
  no.textContent = words.back;
  actions.append(no, yes);
  dialog.append(text, actions);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    const end = (answer) => { dialog.remove(); resolve(answer); };
    yes.addEventListener("click", () => end(true));
    no.addEventListener("click", () => end(false));
    dialog.addEventListener("cancel", () => end(false));
  });
}

// --- Copy buttons, relative times ---

document.addEventListener("click", async (e) => {
  const button = e.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.classList.add("done");
  status(words.copied);
  setTimeout(() => button.classList.remove("done"), 1500);
});

// tellTimes writes relative times as the server does: see relative in text.go.
function tellTimes() {
  const fill = (text, value) => text.replace(/\{\w+\}/, value);
  for (const time of document.querySelectorAll("time[datetime]")) {
    const ahead = (Date.parse(time.dateTime) - Date.now()) / 1000, seconds = Math.abs(ahead);
    const unit = spans.find(({ size, end }) => !end || Math.round(seconds / size) < end);
    const span = fill(words[unit.name], Math.round(seconds / unit.size));
    const text = seconds < 1 ? words.now : fill(ahead < 0 ? words.ago : words.in, span);
    if (time.textContent !== text) time.textContent = text;
  }
}

// A box with data-select-all selects every box of its form that has the name. It shows
// whether all of them are selected, or some.
document.addEventListener("change", (e) => {
  if (e.target.type === "checkbox" && e.target.form) selectAll(e.target.form, e.target);
});

function selectAll(form, changed) {
  const all = form.querySelector("[data-select-all]");
  if (!all) return;
  const boxes = [...form.querySelectorAll(`input[name="${all.dataset.selectAll}"]`)];
  if (changed === all) for (const box of boxes) box.checked = all.checked;
  const n = boxes.filter((box) => box.checked).length;
  all.checked = n > 0 && n === boxes.length;
  all.indeterminate = n > 0 && n < boxes.length;
}

// enhance shows the buttons that need scripts, in a new part of the page, and the current tab
// where the line of tabs is longer than the screen.
function enhance(part) {
  for (const tab of part.querySelectorAll(".tabs [aria-current]")) tab.parentElement.scrollLeft = tab.offsetLeft - tab.parentElement.offsetLeft - 48;
  for (const button of part.querySelectorAll("[data-tail-pause]")) button.hidden = !main().querySelector("[data-tail]");
  for (const label of part.querySelectorAll("[data-select]")) label.hidden = false;
  if (navigator.clipboard) for (const button of part.querySelectorAll("[data-copy]")) button.hidden = false;
}

// --- Keyboard ---

let waiting = 0; // since when g was pressed

document.addEventListener("keydown", (e) => {
  const typing = e.target.closest("input, textarea, select, [contenteditable]");
  if (e.key === "Escape" && typing) { typing.blur(); return; }
  if (typing || e.metaKey || e.ctrlKey || e.altKey || document.querySelector("dialog[open]")) return;
  if (waiting && Date.now() - waiting < 1500) {
    waiting = 0;
    const to = document.querySelector(`.sidebar nav a[data-key="${CSS.escape(e.key)}"]`);
    if (to) { e.preventDefault(); load(new URL(to.href)); return; }
  }
  const act = { "/": () => document.getElementById("q")?.focus(), "?": () => document.getElementById("keys")?.showModal(), j: () => move(1), k: () => move(-1), g: () => { waiting = Date.now(); } }[e.key];
  if (act) { e.preventDefault(); act(); }
});

// move focuses the link of the next row.
function move(by) {
  const rows = [...main().querySelectorAll("tr:has(a.row), li:has(> a.row)")];
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
  rows.forEach((row) => row.classList.toggle("selected", row === next));
  next.querySelector("a.row").focus();
}

// --- Live: one stream for each browser, shared by its tabs, closed while hidden ---

// share opens the stream of a URL in one visible tab. That tab hands the messages to
// the others. When it is hidden or closed, another visible tab takes over.
function share(url, receive) {
  const channel = new BroadcastChannel(url);
  let stop = null;
  channel.onmessage = (e) => { if (!document.hidden) receive(e.data); };
  const lead = () => {
    if (stop || document.hidden || !navigator.locks) return;
    const giveUp = new AbortController();
    stop = () => { giveUp.abort(); stop = null; };
    navigator.locks.request(url, { signal: giveUp.signal }, () => new Promise((release) => {
      const source = new EventSource(url);
      const tell = (message) => { receive(message); channel.postMessage(message); };
      for (const name of ["changed", "tail"]) source.addEventListener(name, (e) => tell({ name, data: e.data }));
      source.onopen = () => tell({ name: "on" });
      source.onerror = () => tell({ name: source.readyState === EventSource.CLOSED ? "gone" : "off" });
      giveUp.signal.addEventListener("abort", () => { source.close(); release(); });
    })).catch(() => {}); // an abort while it waits
  };
  const seen = () => { if (document.hidden) { stop?.(); } else { lead(); receive({ name: "seen" }); } };
  document.addEventListener("visibilitychange", seen);
  // If another tab has the stream, its messages during the load of this page are missed.
  navigator.locks?.query().then(({ held }) => { if (held.some((lock) => lock.name === url)) receive({ name: "seen" }); });
  lead();
  return () => { document.removeEventListener("visibilitychange", seen); stop?.(); channel.close(); };
}

let renewing = false, again = false; // again: something has changed since a fetch or a load began
let away = 0; // the timer of the next try, while the server cannot renew the page; 0: it can

// folds counts the open folds of a part. Some are open from the start.
const folds = (part) => part.querySelectorAll("details[open]").length;

// renew loads the page again and replaces its live parts, except the part that has the
// focus, a fold that the person opened or closed, or the selected row. If the server cannot tell what is there, the
// page says so, and tries again. While another page is being loaded it waits: the server may
// have read that page before the change.
async function renew() {
  again = renewing || loading > 0;
  if (again || document.hidden) return;
  renewing = true;
  const visit = visits, at = location.href;
  try {
    const response = await fetch(at, { headers: { Accept: "text/html", "Postrider-Renewal": "yes" }, credentials: "same-origin" });
    if (response.status >= 500) {
      mark(false);
      outdated(true);
      clearTimeout(away);
      away = setTimeout(renew, 2000);
      return;
    }
    if (away) {
      clearTimeout(away);
      away = 0;
      outdated(false);
      if (connected) mark(true); // it has missed nothing
      else { leave?.(); leave = null; watched = ""; watch(); }
    }
    if (!response.ok || response.redirected) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (visit !== visits || at !== location.href) { again = true; return; } // the person has gone on to another page
    for (const old of main().querySelectorAll("[data-live][id], #hold")) {
      const fresh = page.getElementById(old.id);
      if (!fresh || old.contains(document.activeElement) || old.querySelector("tr.selected, input:checked") || folds(old) !== folds(fresh)) continue;
      const next = document.adoptNode(fresh);
      enhance(next);
      if (next.innerHTML !== old.innerHTML) old.replaceWith(next);
    }
    tellTimes();
  } catch { /* the stream tells that the server is gone */ } finally {
    renewing = false;
    if (again) renew();
  }
}

// outdated says on the page that the server cannot renew it, or takes that back.
function outdated(is) {
  const note = document.getElementById("outdated");
  if (is === Boolean(note)) return;
  status(is ? words.outdated : "");
  if (!is) { note.remove(); return; }
  const flash = document.createElement("div");
  flash.id = "outdated";
  flash.className = "flash warn";
  flash.textContent = words.outdated;
  main().prepend(flash);
}

// mark shows whether the page renews itself.
function mark(on) {
  for (const el of main().querySelectorAll("[data-live-mark]")) {
    el.hidden = on === null;
    el.classList.toggle("off", !on);
    el.textContent = on ? el.dataset.textOn : el.dataset.textOff;
  }
}

// addRows adds rows of the tail on top, and drops the oldest.
function addRows(tail, message) {
  const { html, lost } = JSON.parse(message);
  if (lost) { const note = main().querySelector("[data-lost]"); if (note) { note.dataset.n = Number(note.dataset.n ?? 0) + lost; note.textContent = note.dataset.lost.replace("{n}", note.dataset.n); note.hidden = false; } }
  const rows = new DOMParser().parseFromString("<table><tbody>" + html + "</tbody></table>", "text/html").querySelectorAll("tr");
  if ("paused" in tail.dataset) return;
  for (const row of rows) tail.prepend(document.adoptNode(row));
  while (tail.rows.length > 200) tail.lastElementChild.remove();
  main().querySelector("[data-tail-empty]")?.setAttribute("hidden", "");
  tellTimes();
}

document.addEventListener("click", (e) => {
  const button = e.target.closest("[data-tail-pause]");
  const tail = button && main().querySelector("[data-tail]");
  if (!tail) return;
  const paused = tail.toggleAttribute("data-paused");
  button.setAttribute("aria-pressed", paused);
  button.textContent = paused ? button.dataset.resume : button.dataset.pause;
});

let leave = null; // leaves the stream of the page before
let watched = ""; // URL of the stream of this page; empty: it has none
let connected = false; // what the stream of this page told last: it is open

function watch() {
  const tail = main().querySelector("[data-tail]");
  const url = !base ? "" : tail ? base + "/live/tail" + location.search : main().querySelector("[data-live]") ? base + "/live" : "";
  if (url !== watched) { leave?.(); leave = null; connected = false; mark(null); }
  if (!url || url === watched) { watched = url; return; }
  watched = url;
  leave = share(url, ({ name, data }) => {
    if (name === "on" || name === "off" || name === "gone") { connected = name === "on"; mark(name === "gone" ? null : connected); }
    // What happened between the page and the stream is in no message: renew once. And
    // why a stream is gone for good, its page knows.
    if (name === "changed" || name === "gone" || (name === "seen" || name === "on") && !tail) renew();
    const to = main().querySelector("[data-tail]");
    if (name === "tail" && to) addRows(to, data);
  });
}
document.addEventListener("page", watch);

// --- Start ---

const zone = document.querySelector("[data-zone]");
if (zone) {
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (here && zone.dataset.zone === "unset") zone.value = here; // it counts once it is saved
  const names = [here, "UTC", ...Intl.supportedValuesOf?.("timeZone") ?? []];
  document.getElementById("zones").replaceChildren(...names.map((name) => Object.assign(document.createElement("option"), { value: name })));
}
if (base) setInterval(tellTimes, 1000);
if (base) setInterval(() => { if (main().querySelector("[data-poll]")) renew(); }, 3000); // no attempt tells of what goes on there
enhance(document);
watch();
