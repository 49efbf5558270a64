// The page: what is typed and said goes to the server at once, and what it makes of it is shown.

import { Link } from "./link.js";
import { find, make } from "./make.js";
import { Microphone } from "./microphone.js";
import { Player } from "./player.js";
import { close } from "./source.js";
import { Turn } from "./turns.js";

const link = new Link(), microphone = new Microphone();
const player = new Player((turn) => { link.send({ kind: "spoken", turn }); buttons(); });
const box = find("question"), talk = find("talk"), quiet = find("quiet");
const turns = new Map();
let pending = null, current = null, unbound = null, state = "idle", typed = "", timer = 0, hearing = false, asked = [];

// What the server says -----------------------------------------------------------------------------

link.addEventListener("welcome", ({ detail }) => {
  about(detail);
  notice(detail.anew && turns.size ? "The server was started anew. What stands here stays, but it does not remember it." : "");
  find("link").textContent = "";
  if (!detail.back) { current = null; state = "idle"; turns.clear(); }
  if (microphone.on) listen(rate);
  link.send({ kind: "settings", speak: find("aloud").checked });
  if (find("language").value && detail.anew) link.send({ kind: "language", language: find("language").value });
  if (pending) { unbound = detail.back ? unbound : pending; link.send({ kind: "end_of_turn", text: pending.text, id: pending.id }); }
  else if (box.value.trim()) link.send({ kind: "partial", text: box.value });
  buttons();
});

link.addEventListener("away", ({ detail }) => {
  find("link").textContent = detail.over ? "Open in another window" : "Connecting";
  if (detail.reason && !detail.over) notice(detail.reason);
  quiet.replaceChildren();
  player.stop();
  buttons();
});

link.addEventListener("sound", ({ detail }) => { player.take(detail); buttons(); });

const on = {
  state({ to, turn }) {
    state = to;
    if (to === "listening") { current = { number: turn, found: new Map() }; drawQuiet(); }
    if (to === "settling" || to === "answering") turnOf(turn)?.end();
    if (to === "idle" && !box.value) quiet.replaceChildren();
    buttons();
  },
  heard({ turn, text, settled }) {
    if (!microphone.on && !hearing) return;
    const one = turns.get(turn) || bind(turn, new Turn(text));
    one.hear(text, settled);
  },
  resumed({ turn, of }) { if (turns.has(of) && !turns.get(of).answered) turns.set(turn, turns.get(of)); },
  asking({ turn }) { if (current?.number === turn) { current.asking = true; drawQuiet(); } },
  looking({ turn, source }) { note(turn, source.id, { ...source, state: "looking" }); },
  ready({ turn, id }) { note(turn, id, { state: "ready" }); },
  failed({ turn, id, reason }) { note(turn, id, { state: "failed", reason }); },
  evidence({ turn, sources }) {
    for (const source of sources) note(turn, source.id, { ...source, state: "ready" });
    turnOf(turn)?.wait();
  },
  answer(message) {
    const one = turnOf(message.turn) || bind(message.turn, new Turn(""));
    if (one.answered) return;
    one.answer(message);
    if (pending === one) pending = null;
    hearing = microphone.on;
    find("spoken-status").textContent = "Answered.";
    if (box.value.trim() && !typed) { typed = box.value; link.send({ kind: "partial", text: typed }); }
    if (!message.asks_back && message.language) shownLanguage(message.language, false);
  },
  stop_speaking() { player.stop(); buttons(); },
  cancelled({ turn, reason }) {
    if (reason === "the question goes on") turns.get(turn)?.goOn();
    else turns.get(turn)?.stopped(reason === "nothing was said" ? "Nothing was said." : "Stopped.");
    if (turns.get(turn) === pending) pending = null;
  },
  resume({ state: now, gap }) { state = now; if (gap) notice("Some of what happened meanwhile is lost. Ask again if an answer is missing."); buttons(); },
  refused({ reason, id }) {
    notice(reason);
    if (id && pending?.id === id) { pending.stopped(reason); pending = null; }
    buttons();
  },
  language({ language }) { shownLanguage(language, true); },
};
link.addEventListener("message", ({ detail }) => on[detail.kind]?.(detail));

function turnOf(number) {
  if (turns.has(number)) return turns.get(number);
  if (!unbound) return null;
  const one = unbound;
  unbound = null;
  return bind(number, one);
}

function bind(number, turn) {
  turns.set(number, turn);
  if (current?.number === number) turn.sources = current.found;
  return turn;
}

// The quiet line: what is looked up, and what is there already -------------------------------------

function note(number, id, news) {
  if (current?.number !== number) return;
  const known = current.found.get(id);
  if (!known && !news.place && !news.title) return;
  if (known?.state === "ready" && news.state === "looking") return;
  current.found.set(id, { ...known, ...news });
  drawQuiet();
}

function drawQuiet() {
  const found = [...(current?.found.values() || [])];
  if (!current?.asking && !found.length) { quiet.replaceChildren(); return; }
  const ready = found.filter((f) => f.state === "ready").length;
  const told = found.length ? `${ready} of ${found.length} ready` : "Looking up";
  const names = new Map(found.map((f) => [titled(f), f]));
  const shown = [...names].slice(-3).reverse().map(([title, f]) => make("span", { className: `found ${f.state}`, title: f.reason || f.place || "" }, make("span", {}, title)));
  quiet.replaceChildren(make("span", { className: "told" }, told), ...shown);
}

const titled = (source) => (source.title || source.place || "").split(" > ").at(-1);

// Typing -------------------------------------------------------------------------------------------

function grow() { box.style.height = "auto"; box.style.height = `${box.scrollHeight}px`; }

box.addEventListener("input", () => {
  grow();
  if (player.on) { player.stop(); link.send({ kind: "barge_in" }); }
  buttons();
  clearTimeout(timer);
  const wait = /\s$/.test(box.value) ? 0 : 90;
  timer = setTimeout(() => {
    if (box.value === typed || (pending && state !== "idle")) return;
    typed = box.value;
    link.send({ kind: "partial", text: typed });
  }, wait);
});

box.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); submit(); }
  if (event.key === "ArrowUp" && !box.value && asked.length) { event.preventDefault(); box.value = asked.at(-1); grow(); box.dispatchEvent(new Event("input")); }
});

find("composer").addEventListener("submit", (event) => { event.preventDefault(); submit(); });

function submit() {
  const text = box.value.trim();
  if (!text || pending) return;
  clearTimeout(timer);
  notice("");
  asked.push(text);
  pending = new Turn(text, crypto.randomUUID?.() || String(Math.random()));
  if (state === "listening" && current && !turns.has(current.number)) bind(current.number, pending);
  else unbound = pending;
  pending.end();
  box.value = ""; typed = ""; grow();
  if (!link.send({ kind: "end_of_turn", text, id: pending.id })) notice("Not connected at the moment; the question is asked as soon as it is.");
  buttons();
}

// Talking ------------------------------------------------------------------------------------------

let rate = 48000, held = false, choseAloud = false;
const canHear = () => talk.getAttribute("aria-disabled") !== "true";

// A question that is spoken is answered aloud, unless somebody chose otherwise.
function aloud() {
  if (choseAloud || find("aloud-choice").hidden || find("aloud").checked) return;
  find("aloud").checked = true;
  link.send({ kind: "settings", speak: true });
}

function press() {
  if (!canHear()) { notice(talk.title); return; }
  if (held || find("open").checked) return;
  held = true; hearing = true;
  aloud();
  notice("");
  player.stop();
  if (state === "speaking") link.send({ kind: "barge_in" });
  microphone.start();
}

function release() {
  if (!held) return;
  held = false;
  microphone.stop();
  link.send({ kind: "mute" });
}

function listen(hertz) { rate = hertz; link.send({ kind: "listen", rate: Math.round(hertz) }); }

microphone.addEventListener("began", ({ detail }) => listen(detail.rate));
microphone.addEventListener("piece", ({ detail }) => {
  link.sendSound(detail.pcm);
  talk.querySelector(".level").style.transform = `scale(${1 + Math.min(0.5, 2.5 * detail.level)})`;
});
for (const kind of ["began", "ended"]) microphone.addEventListener(kind, () => { talk.ariaPressed = String(microphone.on); buttons(); });
microphone.addEventListener("failed", ({ detail }) => { held = false; find("open").checked = false; notice(detail); buttons(); });

talk.addEventListener("pointerdown", (event) => { event.preventDefault(); talk.focus(); talk.setPointerCapture(event.pointerId); press(); });
for (const kind of ["pointerup", "pointercancel"]) talk.addEventListener(kind, release);
talk.addEventListener("keydown", (event) => { if ([" ", "Enter"].includes(event.key)) { event.preventDefault(); if (!event.repeat) press(); } });
talk.addEventListener("keyup", (event) => { if ([" ", "Enter"].includes(event.key)) { event.preventDefault(); release(); } });
talk.addEventListener("contextmenu", (event) => event.preventDefault());
window.addEventListener("blur", release);

find("open").addEventListener("change", () => {
  if (find("open").checked) { hearing = true; aloud(); microphone.start(); }
  else { microphone.stop(); link.send({ kind: "mute" }); }
});
find("aloud").addEventListener("change", () => {
  choseAloud = true;
  link.send({ kind: "settings", speak: find("aloud").checked });
  if (!find("aloud").checked) stop();
});

// Stopping -----------------------------------------------------------------------------------------

function stop() {
  if (player.on || state === "speaking") { player.stop(); link.send({ kind: "barge_in" }); }
  else if (["settling", "answering"].includes(state) || pending) { link.send({ kind: "cancel" }); pending?.stopped("Stopped."); pending = null; }
  buttons();
}

find("stop").addEventListener("click", () => { stop(); box.focus(); });
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !close()) stop();
  const writes = event.target.closest("textarea, input, select, button, summary");
  if (event.key === "/" && !writes && !event.ctrlKey && !event.metaKey) { event.preventDefault(); box.focus(); }
});

// What the page knows of itself --------------------------------------------------------------------

function buttons() {
  const busy = player.on || Boolean(pending) || ["settling", "answering"].includes(state);
  find("stop").hidden = !busy;
  find("send").hidden = busy;
  find("send").disabled = !box.value.trim();
}

function notice(text) { find("notice").textContent = text; find("notice").hidden = !text; }

function about({ name, passages, missing = {}, speaks, languages = [], calibrate = "" }) {
  Turn.calibrate = calibrate;
  find("about").textContent = [name, passages ? `${passages.toLocaleString("en")} passages` : ""].filter(Boolean).join(" · ");
  document.title = name ? `${name} · foretell` : "foretell";
  talk.setAttribute("aria-disabled", String(Boolean(missing.hearing)));
  talk.title = missing.hearing || "Hold to talk";
  find("open-choice").hidden = Boolean(missing.hearing);
  find("aloud-choice").hidden = !speaks;
  find("missing").replaceChildren(...Object.values(missing).map((line) => make("li", {}, ...coded(line))));
  const codes = languages.length ? languages : ["en", "de", "fr", "es", "it", "pt", "nl", "pl"];
  const chosen = find("language").value;
  find("language").replaceChildren(make("option", { value: "" }, "Language"), ...codes.map((code) => make("option", { value: code }, named(code))));
  find("language").value = chosen;
}

const coded = (line) => line.split(/`([^`]*)`/).map((part, i) => (i % 2 ? make("code", {}, part) : part));
const names = new Intl.DisplayNames(["en"], { type: "language" });
const named = (code) => { try { return names.of(code); } catch { return code; } };
let chosen = false;

function shownLanguage(code, sure) {
  const list = find("language");
  if (chosen && !sure) return;
  if (![...list.options].some((option) => option.value === code)) list.append(make("option", { value: code }, named(code)));
  list.value = code;
}

find("language").addEventListener("change", ({ target }) => { chosen = Boolean(target.value); if (chosen) link.send({ kind: "language", language: target.value }); });

grow();
box.focus();
