// A slider with its value beside it, and requests of which only the last one counts.
import { h } from "./dom.js";

// `change(value)` is told while the slider moves.
export function slider(label, { min, max, step, value, digits = 2 }, change) {
  const show = (number) => Number(number).toFixed(digits);
  const output = h("output", {}, show(value));
  const input = h("input", {
    type: "range", min, max, step, value: String(value), "aria-label": label,
    on: { input: () => { output.textContent = show(input.value); change(Number(input.value)); } },
  });
  input.value = String(value);
  const made = h("div", { class: "slider" }, h("span", { class: "slider-name", "aria-hidden": "true" }, label), input, output);
  made.set = (number) => { input.value = String(number); output.textContent = show(number); };
  made.limit = (most) => { input.max = String(most); if (Number(input.value) > most) made.set(most); };
  return made;
}

// Runs `work` for the newest arguments: one at a time, and what was asked in between is skipped.
export function newest(work) {
  let running = false;
  let waiting = null;
  return async function ask(...args) {
    if (running) { waiting = args; return; }
    running = true;
    try {
      for (let next = args; next; next = waiting) {
        waiting = null;
        await work(...next);
        if (!waiting) break;
      }
    } finally {
      running = false;
    }
  };
}
