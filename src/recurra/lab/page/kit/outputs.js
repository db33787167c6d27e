// The foot of every view: the same as a picture, as numbers, as Python.
import { attempt } from "./banner.js";
import { button, h, put } from "./dom.js";

export function download(name, content, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

const TYPES = { json: "application/json", csv: "text/csv", svg: "image/svg+xml", png: "image/png" };

// `picture`, `numbers`: {svg|png|json|csv: () => content, a Blob or a promise of one}; `python`: () => the lines.
export function outputs({ name, picture = {}, numbers = {}, python = null }) {
  const save = (ending, make) => attempt(async () => {
    const content = await make();
    download(`${name}.${ending}`, content instanceof Blob || typeof content === "string" ? content : JSON.stringify(content, null, 1), TYPES[ending]);
  });
  const group = (title, makes) => Object.keys(makes).length ? h("div", { class: "output", role: "group", "aria-label": title },
    h("span", { class: "label" }, title),
    Object.entries(makes).map(([ending, make]) => button(ending.toUpperCase(), () => save(ending, make), { class: "small" }))) : null;
  const lines = h("pre", { hidden: true, tabindex: "0", "aria-label": "Python" });
  const copy = button("Copy", () => navigator.clipboard?.writeText(lines.textContent), { class: "small", hidden: true });
  const toggle = button("Python", () => attempt(async () => {
    const show = lines.hidden;
    if (show) put(lines, await python());
    lines.hidden = copy.hidden = !show;
    toggle.setAttribute("aria-expanded", String(show));
  }), { class: "small", "aria-expanded": "false" });
  return h("footer", { class: "outputs" },
    group("As picture", picture), group("As numbers", numbers),
    python ? h("div", { class: "output", role: "group", "aria-label": "As Python" }, h("span", { class: "label" }, "As Python"), toggle, copy) : null,
    lines);
}

export const canvasAsPng = (canvas) => new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); });

// Rows of plain values as CSV.
export function toCsv(columns, rows) {
  const cell = (value) => { const text = value === null || value === undefined ? "" : String(value); return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}
