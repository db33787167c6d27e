// Sampling: text as it is produced. Its picture is the state of the network over the beginning of the text.
import { blob, stream } from "../kit/api.js";
import { attempt } from "../kit/banner.js";
import { button, field, h, put } from "../kit/dom.js";
import { outputs } from "../kit/outputs.js";

const DEFAULTS = { prime: "", length: "400", temperature: "0.8", top_k: "", top_p: "", seed: "" };
const number = (value) => (value === "" ? null : Number(value));

export function sampler(panel) {
  // an input whose value stands in the address where it is not the default; two runs that are compared share them
  const input = (key, props, event = "change") => {
    const made = h("input", { ...props, on: { [event]: () => panel.set({ [key]: made.value === DEFAULTS[key] ? null : made.value }) } });
    made.value = panel.get(key, DEFAULTS[key]);
    return made;
  };
  const prime = input("prime", { type: "text", maxlength: 2000, spellcheck: "false", autocomplete: "off", placeholder: "it begins by itself" });
  const length = input("length", { type: "number", min: 1, max: 100000 });
  const temperature = input("temperature", { type: "range", min: 0.1, max: 2, step: 0.05 }, "input");
  const topK = input("top_k", { type: "number", min: 1, placeholder: "all" });
  const topP = input("top_p", { type: "number", min: 0.01, max: 1, step: 0.01, placeholder: "all" });
  const seed = input("seed", { type: "number", min: 0, placeholder: "random" });
  const heat = h("output", { class: "mono" }, temperature.value);
  const greedy = h("input", { type: "checkbox", checked: panel.get("greedy") === "1", on: { change: () => panel.set({ greedy: greedy.checked ? "1" : null }) } });
  const text = h("pre", { class: "sample", tabindex: "0", "aria-label": "The text", "aria-live": "off" });
  const status = h("span", { class: "soft", role: "status" });
  let stop = new AbortController();
  let lines = "";

  // what comes within one frame is put on the page together: a network writes faster than a screen is drawn
  let waiting = "", frame = 0;
  const flush = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    text.append(waiting);
    waiting = "";
    text.scrollTop = text.scrollHeight;
  };
  const show = (more) => { waiting += more; frame = frame || requestAnimationFrame(flush); };

  const write = () => attempt(async () => {
    stop.abort();
    stop = new AbortController();
    panel.signal.addEventListener("abort", () => stop.abort());
    const mine = stop;
    const asked = { run: panel.run.name, prime: prime.value, length: number(length.value) ?? 400, temperature: number(temperature.value), top_k: number(topK.value), top_p: number(topP.value), seed: number(seed.value), greedy: greedy.checked };
    flush();
    put(text, h("span", { class: "soft" }, prime.value));
    const began = performance.now();
    let count = 0;
    halt.disabled = false;
    status.textContent = "writing …";
    try {
      await stream("api/generate/sample", asked, (event) => {
        if (mine !== stop) return;
        if (event.done) lines = event.python;
        else { show(event.text); count += 1; }
      }, stop.signal);
    } finally {
      if (mine === stop) {
        flush();
        halt.disabled = true;
        status.textContent = `${count} tokens in ${((performance.now() - began) / 1000).toFixed(1)} s`;
      }
    }
  });
  panel.onAddress(() => {
    Object.entries({ prime, length, temperature, top_k: topK, top_p: topP, seed }).forEach(([key, each]) => { if (each !== document.activeElement) each.value = panel.get(key, DEFAULTS[key]); });
    heat.textContent = temperature.value;
    greedy.checked = panel.get("greedy") === "1";
  });
  const halt = button("Stop", () => stop.abort(), { disabled: true });

  return h("div", { class: "card" }, h("h2", {}, "Sample"),
    h("form", { on: { submit: (event) => { event.preventDefault(); write(); } } },
      h("div", { class: "row" }, field("Prime", prime), field("Tokens", length), field(h("span", {}, "Temperature ", heat), temperature), field("Top k", topK), field("Top p", topP), field("Seed", seed), h("label", { class: "tick" }, greedy, "greedy")),
      h("div", { class: "row" }, h("button", { type: "submit", class: "main" }, "Write"), halt, status)),
    text,
    outputs({ name: `${panel.run.name}-sample`, picture: { svg: () => blob("api/time/picture.svg", { run: panel.run.name, text: text.textContent.slice(0, 200) }) }, numbers: { json: () => ({ prime: prime.value, text: text.textContent }) }, python: () => lines || "# write something first" }));
}
