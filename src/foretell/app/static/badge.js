// Whether an answer may be believed, in a word, and why, in sentences.

import { make } from "./make.js";

const percent = (share) => `${Number((100 * share).toPrecision(2))}\u00a0%`;

export function badge(answer, calibrate) {
  const { decision, certificate } = answer;
  const [word, tone, hollow] = judged(answer, calibrate);
  const button = make("button", { type: "button", className: `badge ${tone}${hollow ? " hollow" : ""}`, ariaExpanded: "false" }, word);
  let panel = null;
  button.addEventListener("click", () => {
    if (panel) { panel.remove(); panel = null; button.ariaExpanded = "false"; return; }
    panel = explained(answer, calibrate, tone);
    button.closest(".meta").after(panel);
    button.ariaExpanded = "true";
    panel.scrollIntoView({ block: "nearest" });
  });
  return button;
}

function judged({ decision, certificate, statements }, calibrate) {
  if (decision.action === "withhold") return ["Withheld", "plain-tone", true];
  if (decision.action === "pass_on") return ["Unsure: ask somebody", "fair", true];
  if (!statements.length) return ["Nothing is claimed", "plain-tone", true];
  if (!certificate) {
    const kinds = new Set(statements.flatMap((one) => one.sources.map((source) => source.kind)));
    return [kinds.has("model") ? "From the model" : kinds.has("calculation") ? "Computed" : calibrate ? "Quoted, not calibrated on your notes" : "Quoted, not certified", "plain-tone", false];
  }
  return [`Vouched for: at most ${percent(certificate.level)} wrong`, "good", false];
}

function explained({ decision, certificate, statements }, calibrate, tone) {
  const parts = [make("p", {}, sentence(decision.reason))];
  if (typeof decision.threshold === "number") parts.push(scale(decision, tone));
  if (certificate) {
    parts.push(make("p", {}, certificate.statement), make("p", { className: "caption" }, `Holds if ${sentence(certificate.assumptions[0] || "nothing further", false)}`), make("details", {}, make("summary", {}, "What else this rests on"), make("ul", {}, ...[
      ...certificate.assumptions.slice(1).map((one) => `Holds if ${sentence(one, false)}`),
      `What is not accepted: ${sentence(certificate.abstentions, false)}`,
      `Calibrated on ${certificate.n.toLocaleString("en")} cases${certificate.confidence ? `, confidence ${percent(certificate.confidence)}` : ""}.`,
      ...certificate.remarks,
    ].map((line) => make("li", {}, line)))));
  } else if (decision.action !== "withhold") {
    const quoted = !statements.length || statements.some((one) => one.sources.some((source) => source.kind === "notes"));
    parts.push(make("p", { className: "caption" }, `No certificate backs this decision. ${quoted ? calibrate : ""}`));
  }
  return make("div", { className: `why ${tone}`, role: "region", ariaLabel: "Why" }, ...parts);
}

const sentence = (text, begins = true) => (text ? `${begins ? text[0].toUpperCase() : text[0].toLowerCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}` : "").replace(/(\d) %/g, "$1\u00a0%");

function scale({ score, threshold }, tone) {
  const at = (share) => 100 * Math.max(0, Math.min(1, share));
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("aria-hidden", "true");
  const draw = (kind, attributes) => {
    const shape = document.createElementNS(svg.namespaceURI, kind);
    for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
    svg.append(shape);
  };
  draw("rect", { class: "track", x: 0, y: 3, width: "100%", height: 4, rx: 2 });
  draw("rect", { class: "allowed", x: 0, y: 3, width: `${at(threshold)}%`, height: 4, rx: 2 });
  draw("circle", { class: "here", cx: `${Math.min(99, Math.max(1, at(score)))}%`, cy: 5, r: 5 });
  const limit = make("span", {}, "given up to here");
  if (threshold < 0.5) limit.style.left = `${at(threshold)}%`;
  else limit.style.right = `${100 - at(threshold)}%`;
  return make("div", { className: `scale ${tone}` }, svg, limit);
}
