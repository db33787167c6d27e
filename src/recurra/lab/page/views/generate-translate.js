// Translation: what a beam finds, the beam as a tree, and what the best one attended to.
import { blob, post } from "../kit/api.js";
import { attempt } from "../kit/banner.js";
import { field, figures, h, put, svg, table } from "../kit/dom.js";
import { HeatMap } from "../kit/heatmap.js";
import { outputs } from "../kit/outputs.js";
import { visible } from "./time-text.js";

const ACROSS = 64, DOWN = 34, PAD = 30;

// Steps from left to right; the way to the best sequence is drawn thick, and marked in words for those who cannot see that.
function drawTree(nodes) {
  const steps = Math.max(...nodes.map((node) => node.step));
  const rows = Math.max(...nodes.map((node) => node.row));
  const x = (node) => PAD + (node.step - 1) * ACROSS;
  const y = (node) => PAD + node.row * DOWN;
  const edges = nodes.filter((node) => node.parent >= 0).map((node) => {
    const from = nodes[node.parent];
    const middle = (x(from) + x(node)) / 2;
    return svg("path", { class: node.is_best ? "branch best" : "branch", d: `M${x(from)} ${y(from)} C${middle} ${y(from)} ${middle} ${y(node)} ${x(node)} ${y(node)}` });
  });
  const boxes = nodes.map((node) => svg("g", { class: node.is_best ? "twig best" : "twig" },
    svg("title", {}, `${visible(node.token)}: log P ${figures(node.log_probability)}, ranked by ${figures(node.score)}${node.is_best ? ", on the best way" : ""}`),
    svg("rect", { x: x(node) - 17, y: y(node) - 12, width: 34, height: 24, rx: 6 }),
    svg("text", { x: x(node), y: y(node) + 5, "text-anchor": "middle" }, visible(node.token).slice(0, 4))));
  const width = 2 * PAD + (steps - 1) * ACROSS, height = 2 * PAD + rows * DOWN;
  return svg("svg", { class: "tree", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `The beam as a tree of ${nodes.length} beginnings; the best reads ${nodes.filter((node) => node.is_best).map((node) => node.token).join("")}` }, edges, boxes);
}

export function translator(panel, about) {
  const first = about.examples?.rows[0]?.[0] ?? "";
  const text = h("input", { type: "text", value: panel.get("text", first), maxlength: 2000, spellcheck: "false", autocomplete: "off", size: 36 });
  const beam = h("input", { type: "number", min: 1, max: 16, value: panel.get("beam", 4) });
  const power = h("input", { type: "number", min: 0, max: 4, step: 0.1, value: panel.get("length_power", 1) });
  const place = h("div", { "aria-live": "polite" });
  let lines = "", found = null, attention = null, turn = 0;
  const asked = () => ({ run: panel.run.name, text: text.value, beam: Number(beam.value), length_power: Number(power.value) });

  function drawAttention() {
    if (!found.attention) return h("p", { class: "soft" }, "This model has no attention.");
    const { weights, source, target } = found.attention;
    attention = new HeatMap({ label: "Attention: from which token of the source each token was made", signal: panel.signal, cell: 24, height: 640, rowText: (k) => visible(target[k]).slice(0, 5), columnText: (k) => visible(source[k]).slice(0, 3), onHover: (row, column, value) => { note.textContent = `${visible(target[row])} ← ${visible(source[column])}: ${figures(value, 3)}`; } });
    const note = h("p", { class: "soft mono one-line" }, "Point at a square: from which token of the source a token was made.");
    attention.set(Float32Array.from(weights.flat()), target.length, source.length, 1);
    return [attention.place, note];
  }

  const run = () => attempt(async () => {
    const mine = ++turn;
    const answer = await post("api/generate/translate", asked(), panel.signal);
    if (mine !== turn) return; // another was asked for meanwhile
    found = answer;
    lines = found.python;
    put(place,
      h("p", { class: "answer mono" }, found.translations[0].text),
      table("What the beam found", ["translation", { name: "log P", number: true }, { name: "ranked by", number: true }], found.translations.map((row) => [h("span", { class: "mono" }, row.text), figures(row.log_probability), figures(row.score)])),
      h("h3", {}, "The beam"), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The beam as a tree" }, drawTree(found.nodes)),
      h("h3", {}, "Attention"), drawAttention());
  });
  const submit = (event) => {
    event.preventDefault();
    panel.set({ text: text.value, beam: beam.value, length_power: power.value });
  };
  panel.onAddress(() => {
    const now = [panel.get("text", first), panel.get("beam", "4"), panel.get("length_power", "1")];
    [text.value, beam.value, power.value] = now;
    if (text.value) run();
  });
  if (text.value) run();
  return h("div", { class: "card" }, h("h2", {}, "Translate"),
    h("form", { on: { submit } }, h("div", { class: "row" }, field("Text", text), field("Width of the beam", beam), field("Length power", power), h("button", { type: "submit", class: "main" }, "Translate"))),
    place,
    outputs({
      name: `${panel.run.name}-translation`,
      picture: { svg: () => blob("api/generate/beam.svg", asked()), png: async () => (attention ? attention.asPng(24) : blob("api/generate/attention.svg", asked())) },
      numbers: { json: () => ({ ...found, python: undefined }) },
      python: () => lines,
    }));
}
