// A question and what became of it.

import { badge } from "./badge.js";
import { find, make } from "./make.js";
import { openSource } from "./source.js";

export class Turn {
  static calibrate = "";
  answered = false; sources = new Map(); early = 0; over = false;

  constructor(text, id) {
    this.id = id;
    this.heading = make("h2", { className: "open" }, text);
    this.body = make("div", { className: "body" });
    this.element = make("article", {}, this.heading, this.body);
    find("welcome").hidden = true;
    find("log").append(this.element);
    this.show();
  }

  get text() { return this.heading.textContent; }

  hear(text, settled) {
    this.heading.textContent = text;
    this.heading.classList.toggle("open", !settled);
    this.show();
  }

  end() {
    if (this.over) return;
    this.over = true;
    this.early = [...this.sources.values()].filter((s) => s.state === "ready").length;
    this.wait();
  }

  wait() {
    if (this.answered) return;
    this.body.replaceChildren(make("p", { className: "waiting", ariaLabel: "The answer is being prepared" }, make("i"), make("i"), make("i")));
    this.show();
  }

  stopped(words) {
    if (!this.answered) this.body.replaceChildren(make("p", { className: "caption" }, words));
    this.heading.classList.remove("open");
  }

  goOn() {
    this.answered = this.over = false;
    this.body.replaceChildren();
    this.heading.classList.add("open");
  }

  answer(message) {
    this.answered = true;
    this.heading.classList.remove("open");
    const order = new Map();
    const withheld = message.decision.action === "withhold" && !message.asks_back;
    const whole = make("p", { className: `answer${withheld ? " withheld" : ""}` });
    const statements = message.statements.length ? message.statements : [{ text: message.text, sources: [], unsupported: [] }];
    const said = statements.map((s) => s.text).join(" ");
    if (!said.includes(message.text) && !message.text.includes(statements[0].text)) whole.append(message.text, " ");
    for (const statement of statements) {
      whole.append(make("span", { className: statement.worded ? "worded" : "", title: statement.worded ? "Worded by a language model" : "" }, ...flagged(statement)));
      for (const source of statement.sources) {
        if (!order.has(source.id)) order.set(source.id, { number: order.size + 1, source, statement: statement.text });
        whole.append(this.#cite(order.get(source.id), source, statement.text));
      }
      whole.append(" ");
    }
    const parts = [whole];
    if (message.asks_back && !said.includes(message.asks_back)) parts.push(make("p", { className: "answer" }, message.asks_back));
    if (order.size) parts.push(this.#list("Sources", [...order.values()]));
    else if (message.nearest?.length) parts.push(this.#nearest(message.nearest, message.decision.action === "pass_on" && !message.asks_back));
    const meta = make("div", { className: "meta" }, badge(message, Turn.calibrate));
    const when = timing(message.waited, this.early);
    if (when) meta.append(make("span", { className: "when" }, when));
    parts.push(meta);
    if (message.remarks?.length) parts.push(make("ul", { className: "remarks" }, ...message.remarks.map((r) => make("li", {}, r))));
    this.body.replaceChildren(...parts);
    this.show();
  }

  #cite({ number }, source, statement) {
    const button = make("button", { type: "button", className: "cite", ariaLabel: `Source ${number}: ${source.place}`, ariaExpanded: "false", title: source.place }, String(number));
    button.addEventListener("click", () => openSource(source, statement, button));
    return button;
  }

  #list(label, entries) {
    const rows = entries.map(({ number, source, statement }) => {
      const name = source.title.split(" > ").at(-1) || source.text.slice(0, 80);
      const button = make("button", { type: "button", ariaExpanded: "false" }, make("b", {}, number ? String(number) : "·"), make("span", { className: "what" }, name), make("span", { className: "where" }, source.place));
      button.addEventListener("click", () => openSource(source, statement, button));
      return make("li", {}, button);
    });
    return make("ul", { className: "sources", ariaLabel: label }, ...rows);
  }

  #nearest(sources, open) {
    const details = make("details", { className: "near", open }, make("summary", { className: "caption" }, "What came nearest"), this.#list("What came nearest", sources.slice(0, 3).map((source) => ({ source, statement: "" }))));
    details.addEventListener("toggle", () => this.show());
    return details;
  }

  show() {
    const main = document.querySelector("main");
    const low = this.element.offsetTop + this.element.offsetHeight - main.offsetTop + 24;
    if (low > main.scrollTop + main.clientHeight) main.scrollTo({ top: Math.min(low - main.clientHeight, this.element.offsetTop - main.offsetTop - 8) });
  }
}

function flagged({ text, unsupported = [] }) {
  const parts = [];
  let rest = text;
  for (const piece of unsupported) {
    const at = rest.indexOf(piece);
    if (at < 0) continue;
    parts.push(rest.slice(0, at), make("span", { className: "bare", title: "No source says this" }, piece));
    rest = rest.slice(at + piece.length);
  }
  return [...parts, rest];
}

function timing(waited, early) {
  if (waited === undefined) return "";
  const seconds = waited < 0.1 ? waited.toFixed(2) : waited.toFixed(1);
  const read = early ? ` · ${early} passage${early === 1 ? "" : "s"} read before that` : "";
  return `${seconds} s after you finished${read}`;
}
