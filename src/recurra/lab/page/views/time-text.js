// The text coloured by a unit, and what is predicted at a step.
import { diverging } from "../kit/colours.js";
import { figures, h } from "../kit/dom.js";

export const visible = (token) => token.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥") || "∅";

const BRIGHT = 0.55;

// Tokens as buttons in one line of text; the ground of each is the unit's value after it, mixed so that the text stays readable.
export function colouredText(tokens, values, scale, pick) {
  const palette = diverging();
  const place = h("div", { class: "tokens", on: { click: (event) => { const k = event.target.dataset?.k; if (k !== undefined) pick(Number(k)); } } });
  tokens.forEach((token, k) => {
    const share = Math.max(-1, Math.min(1, values[k] / scale)) * BRIGHT;
    const [r, g, b] = palette[255 + Math.round(share * 255)];
    const span = h("span", { "data-k": k, title: figures(values[k]) }, token === "\n" ? "⏎\n" : token === "" ? "∅" : token);
    span.style.backgroundColor = `rgb(${r} ${g} ${b})`;
    place.append(span);
  });
  return place;
}

export function predictions(found, t) {
  const step = found.steps[t];
  const rows = Object.entries(step.alternatives);
  const bars = rows.map(([token, p]) => {
    const bar = h("span", { class: "bar-fill", "aria-hidden": "true" });
    bar.style.width = `${Math.max(1, 100 * p)}%`;
    return h("li", { class: token === step.target ? "came" : null }, h("code", {}, visible(token)), h("span", { class: "bar-track" }, bar), h("span", { class: "number" }, `${(100 * p).toFixed(1)} %`));
  });
  const known = rows.some(([token]) => token === step.target);
  return [
    h("h2", {}, `Step ${t}: what comes next`),
    h("p", {}, "It has just read ", h("code", {}, visible(found.tokens[t])), "; what came is ", h("code", {}, visible(step.target)), `, to which it gave ${(100 * step.probability).toFixed(1)} %.`),
    h("ul", { class: "bars" }, bars),
    known ? null : h("p", { class: "soft" }, "What came is not among the five most probable."),
    h("p", { class: "hint" }, "← and → go from step to step, ↑ and ↓ from unit to unit."),
  ];
}
