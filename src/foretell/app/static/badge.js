// Whether an answer may be believed, in a word, and why, in sentences.

import { make } from "./make.js";

const percent = (share) => `${Number((100 * share).toPrecision(2))} %`;

export function badge(answer) {
  const { decision, certificate } = answer;
  const [word, tone, hollow] = judged(decision, certificate);
  const button = make("button", { type: "button", className: `badge ${tone}${hollow ? " hollow" : ""}`, ariaExpanded: "false" }, word);
  let panel = null;
  button.addEventListener("click", () => {
    if (panel) { panel.remove(); panel = null; button.ariaExpanded = "false"; return; }
    panel = explained(decision, certificate, tone);
    button.closest(".meta").after(panel);
    button.ariaExpanded = "true";
  });
  return button;
}

function judged(decision, certificate) {
  if (decision.action === "withhold") return ["Withheld", "plain-tone", true];
  if (decision.action === "pass_on") return ["Unsure: ask somebody", "fair", true];
  if (!certificate) return ["Quoted, not certified", "plain-tone", false];
  return [`Vouched for at ${percent(certificate.level)}`, "good", false];
}

function explained(decision, certificate, tone) {
  const parts = [make("p", {}, sentence(decision.reason))];
  if (decision.score !== null && decision.score !== undefined) parts.push(scale(decision, tone));
  if (certificate) {
    parts.push(make("p", {}, certificate.statement));
    parts.push(make("ul", {}, ...[
      ...certificate.assumptions.map((one) => `Holds if ${one}.`),
      `Not accepted: ${certificate.abstentions}`,
      `Calibrated on ${certificate.n.toLocaleString("en")} cases${certificate.confidence ? `, confidence ${percent(certificate.confidence)}` : ""}.`,
      ...certificate.remarks,
    ].map((line) => make("li", {}, line))));
  } else {
    parts.push(make("p", { className: "caption" }, "No certificate backs this decision. ", make("code", {}, "foretell talk calibrate"), " makes one from questions whose answers you know."));
  }
  return make("div", { className: `why ${tone}`, role: "region", ariaLabel: "Why" }, ...parts);
}

const sentence = (text) => text ? `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}` : "";

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
  if (threshold !== null) draw("rect", { class: "allowed", x: 0, y: 3, width: `${at(threshold)}%`, height: 4, rx: 2 });
  draw("circle", { class: "here", cx: `${Math.min(99, Math.max(1, at(score)))}%`, cy: 5, r: 5 });
  const words = `Estimated to be wrong: ${percent(score)}` + (threshold === null ? "" : `, accepted up to ${percent(threshold)}`);
  return make("div", { className: `scale ${tone}` }, svg, make("span", {}, words));
}
