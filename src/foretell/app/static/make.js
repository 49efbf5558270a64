// Elements; text goes in as text, so that nothing that was said or noted becomes markup.

export function make(kind, properties = {}, ...children) {
  const element = document.createElement(kind);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "role") element.setAttribute("role", value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

export const find = (id) => document.getElementById(id);
