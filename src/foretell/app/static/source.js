// The passage that a statement rests on, opened beside the answer, with the statement marked in it.

import { find, make } from "./make.js";

let opener = null;

export function openSource(source, statement, button) {
  close(false);
  opener = button;
  button.ariaExpanded = "true";
  find("source-place").textContent = source.place;
  const title = source.title.split(" > ").at(-1) || "";
  find("source-title").textContent = title;
  find("source-text").replaceChildren(...marked(flowing(untitled(source.text, title)), statement));
  const above = source.title.split(" > ").slice(0, -1).join(" › ");
  const found = source.interval ? `Between ${source.interval.join(" and ")} ${source.unit}. ` : "";
  find("source-note").textContent = found + (above ? `In ${above}` : "");
  const panel = find("source");
  panel.hidden = false;
  panel.scrollTop = 0;
  panel.focus({ preventScroll: true });
  panel.querySelector("mark")?.scrollIntoView({ block: "center" });
}

export function close(back = true) {
  const panel = find("source");
  if (panel.hidden) return false;
  panel.hidden = true;
  if (opener) { opener.ariaExpanded = "false"; if (back) opener.focus(); }
  opener = null;
  return true;
}

// The passage without a first line that repeats its title.
function untitled(text, title) {
  const [first, ...rest] = text.split("\n");
  return title && first.replace(/^#+\s*/, "").trim() === title ? rest.join("\n").trimStart() : text;
}

// Lines that were broken in the middle of a sentence go on; lists, tables and code stay as they are.
const flowing = (text) => text.replace(/([^\n]{60,})\n(?=[^\s\-*+#>|`])/g, "$1 ");

// The statement in the passage, whatever its white space; else its longest sentence.
function marked(text, statement) {
  for (const piece of [statement, ...statement.split(/(?<=[.!?])\s+/).sort((a, b) => b.length - a.length)]) {
    const words = piece.trim().split(/\s+/).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    if (!words[0] || words.length > 200) continue;
    const found = new RegExp(words.join("\\s+")).exec(text);
    if (found) {
      const end = found.index + found[0].length;
      return [text.slice(0, found.index), make("mark", {}, found[0]), text.slice(end)];
    }
  }
  return [text];
}

find("source-close").addEventListener("click", () => close());
