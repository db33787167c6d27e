// Tabs: one of several panels, chosen with the pointer or the arrow keys.
import { h, put } from "./dom.js";

let count = 0;

// `items`: [{name, title, show(place)}]; `chosen`: the name that is open; `change(name)` is told of another choice.
export function tabs(label, items, chosen, change = () => {}) {
  const id = `tabs-${++count}`;
  const place = h("div", { role: "tabpanel", id: `${id}-panel`, class: "tab-panel", tabindex: "0" });
  const heads = items.map((item) => h("button", {
    type: "button", role: "tab", id: `${id}-${item.name}`, "aria-controls": `${id}-panel`,
    on: { click: () => open(item.name), keydown: (event) => move(event, item.name) },
  }, item.title));
  function open(name, tellOf = true) {
    const k = Math.max(0, items.findIndex((item) => item.name === name));
    heads.forEach((head, at) => { head.setAttribute("aria-selected", String(at === k)); head.tabIndex = at === k ? 0 : -1; });
    place.setAttribute("aria-labelledby", `${id}-${items[k].name}`);
    put(place);
    items[k].show(place);
    if (tellOf) change(items[k].name);
  }
  function move(event, name) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const k = (items.findIndex((item) => item.name === name) + step + items.length) % items.length;
    heads[k].focus();
    open(items[k].name);
  }
  const made = h("div", { class: "tabs" }, h("div", { role: "tablist", "aria-label": label }, heads), place);
  open(chosen ?? items[0].name, false);
  return made;
}
