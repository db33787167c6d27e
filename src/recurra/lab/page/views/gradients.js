// Gradients: the norm of ∂h(t)/∂h(t−k) for all t and k, an unrolled drawing of one pair, and one unit by itself.
import { blob, get, post } from "../kit/api.js";
import { attempt } from "../kit/banner.js";
import { css, diverging, onScheme } from "../kit/colours.js";
import { Curves } from "../kit/curves.js";
import { button, choice, h, put, svg } from "../kit/dom.js";
import { outputs, toCsv } from "../kit/outputs.js";
import { newest, slider } from "../kit/slider.js";

const FLOOR = -12;

export async function show(panel) {
  const [cells, listed] = await Promise.all([get("api/gradients/cells", {}, panel.signal), get("api/runs/list", {}, panel.signal)]);
  const number = (key, otherwise) => Number(panel.get(key, otherwise));
  const asked = {
    cell: panel.get("cell", "elman"), run: panel.get("of", ""), radius: number("radius", 1), units: number("units", 8),
    steps: number("steps", 24), drive: number("drive", 0.5), seed: number("seed", 0), truncation: panel.get("truncation", "none"),
  };
  const at = { t: number("t", asked.steps), k: number("k", Math.min(8, asked.steps)) };
  let found = null;
  let scalar = null;

  const summary = h("p", { role: "status", class: "verdict" });
  const kept = h("p", { class: "soft" });
  const said = h("p", { class: "pair", role: "status" });
  const unrolled = h("div", { class: "scroll unrolled", tabindex: "0", role: "region", "aria-label": "The unrolled network" });
  const map = h("canvas", { class: "pairs", role: "img", "aria-label": "The norm of the gradient for all t and k" });
  const curve = new Curves({ label: "log₁₀ of the norm over k", signal: panel.signal, height: 260, x: "k, steps back" });
  const alone = new Curves({ label: "One unit: log₁₀ of the gradient over k", signal: panel.signal, height: 260, x: "k, steps back" });

  const sliderT = slider("t, the step of the loss", { min: 1, max: asked.steps, step: 1, value: at.t, digits: 0 }, (t) => { at.t = t; keepAt(); });
  const sliderK = slider("k, steps back", { min: 0, max: at.t, step: 1, value: at.k, digits: 0 }, (k) => { at.k = k; keepAt(); });

  function keepAt() {
    sliderK.limit(at.t);
    at.k = Math.min(at.k, at.t);
    panel.set({ t: at.t, k: at.k }, { silent: true });
    draw();
  }

  const ask = newest(async () => {
    await attempt(async () => {
      found = await post("api/gradients/map", asked, panel.signal);
      sliderT.limit(found.steps);
      if (at.t > found.steps) at.t = found.steps;
      sliderT.set(at.t);
      sliderK.limit(at.t);
      at.k = Math.min(at.k, at.t);
      draw();
    });
  });

  function change(values) {
    Object.assign(asked, values);
    panel.set({ ...asked, run: panel.get("run"), of: asked.run, cell: asked.cell }, { silent: true });
    weights.hidden = Boolean(asked.run);
    ask();
  }

  function draw() {
    if (!found) return;
    const row = found.logs[at.t - 1];
    const value = row[at.k];
    const reached = at.k < found.kept.reach[at.t - 1];
    summary.textContent = `${found.summary[0].toUpperCase()}${found.summary.slice(1)}.`;
    kept.textContent = `${found.kept_summary}.`;
    const size = value === null ? "0" : `10^${value.toFixed(2)} = ${(10 ** value).toPrecision(3)}`;
    put(said, h("b", {}, `‖∂h(${at.t})/∂h(${at.t - at.k})‖ = ${size}`), reached ? "" : "; this truncation drops it");
    drawUnrolled(row);
    drawMap();
    curve.set([{ label: `t = ${at.t}`, x: row.map((_, k) => k), y: row.map((each) => (each === null ? null : Math.max(FLOOR, each))), k: 0 }]);
  }

  // Circles are states; the arrow from step s to s + 1 on the way from t back to t − k is as wide as the gradient that has come so far.
  function drawUnrolled(row) {
    const T = found.steps;
    const [gap, y] = [Math.max(34, Math.min(56, 1100 / (T + 1))), 70];
    const x = (s) => 30 + gap * s;
    const parts = [];
    for (let s = 0; s < T; s++) {
      const lag = at.t - s;
      const on = lag >= 1 && lag <= at.k;
      const log = on ? row[lag] : null;
      const width = on ? (log === null ? 0.5 : Math.max(0.6, Math.min(18, 8 + 5 * log))) : 1;
      const dropped = on && lag >= found.kept.reach[at.t - 1];
      parts.push(svg("line", {
        x1: x(s) + 12, x2: x(s + 1) - 12, y1: y, y2: y, class: on ? (dropped ? "flow dropped" : "flow") : "step", "stroke-width": width,
      }));
    }
    for (let s = 0; s <= T; s++) {
      const state = s === at.t ? "end" : s === at.t - at.k ? "start" : "";
      parts.push(svg("circle", { cx: x(s), cy: y, r: 11, class: `state ${state}` }));
      parts.push(svg("text", { x: x(s), y: y + 4, "text-anchor": "middle", class: "tiny" }, String(s)));
      if (s) parts.push(svg("path", { d: `M${x(s)} ${y + 44}V${y + 15}`, class: "drive" }), svg("text", { x: x(s), y: y + 58, "text-anchor": "middle", class: "tiny" }, "x"));
    }
    parts.push(svg("path", { d: `M${x(at.t)} ${y - 14}V${y - 40}`, class: "drive" }), svg("text", { x: x(at.t), y: y - 46, "text-anchor": "middle" }, `L(${at.t})`));
    put(unrolled, svg("svg", { width: x(T) + 30, height: 140, viewBox: `0 0 ${x(T) + 30} 140`, role: "img", "aria-label": `The network unrolled over ${T} steps` }, parts));
    const middle = x(at.t - at.k / 2) - unrolled.clientWidth / 2;
    if (unrolled.scrollWidth > unrolled.clientWidth) unrolled.scrollLeft = middle;
  }

  function drawMap() {
    const T = found.steps;
    const size = Math.max(5, Math.floor(Math.min(map.parentElement.clientWidth || 360, 460) / (T + 1)));
    Object.assign(map, { width: size * (T + 1), height: size * T });
    const to = map.getContext("2d");
    const table = diverging();
    const most = Math.max(1, ...found.logs.flat().filter((each) => each !== null).map((each) => Math.min(12, Math.abs(each))));
    for (let t = 1; t <= T; t++) {
      for (let k = 0; k <= t; k++) {
        const value = found.logs[t - 1][k];
        const share = value === null ? -1 : Math.max(-1, Math.min(1, value / most));
        const [r, g, b] = table[Math.round(255 + 255 * share)];
        to.fillStyle = `rgb(${r} ${g} ${b})`;
        to.fillRect(k * size, (T - t) * size, size - 1, size - 1);
        if (k >= found.kept.reach[t - 1]) {
          to.strokeStyle = css("--soft");
          to.lineWidth = 1;
          to.beginPath();
          to.moveTo(k * size, (T - t + 1) * size - 1);
          to.lineTo((k + 1) * size - 1, (T - t) * size);
          to.stroke();
        }
      }
    }
    to.strokeStyle = css("--ink");
    to.lineWidth = 2;
    to.strokeRect(at.k * size, (T - at.t) * size, size - 1, size - 1);
  }

  map.addEventListener("click", (event) => {
    const box = map.getBoundingClientRect();
    const k = Math.floor((event.clientX - box.left) / box.width * (found.steps + 1));
    const t = found.steps - Math.floor((event.clientY - box.top) / box.height * found.steps);
    if (t < 1 || t > found.steps || k > t || k < 0) return;
    Object.assign(at, { t, k });
    sliderT.set(t);
    sliderK.limit(t);
    sliderK.set(k);
    keepAt();
  });
  onScheme(draw, panel.signal);

  const one = { weight: number("weight", 0.9), input: number("input", 0), activation: panel.get("activation", "tanh"), steps: 50 };
  const askOne = newest(() => attempt(async () => {
    scalar = await post("api/gradients/scalar", one, panel.signal);
    const k = scalar.logs.map((_, each) => each);
    const straight = Math.log10(Math.abs(one.weight));
    alone.set([
      { label: "log₁₀ |∂h(t)/∂h(t−k)|", x: k, y: scalar.logs.map((each) => (each === null ? null : Math.max(-16, each))), k: 0 },
      { label: "log₁₀ |v|^k", x: k, y: k.map((each) => (Number.isFinite(straight) ? Math.max(-16, Math.min(16, straight * each)) : null)), k: 1, dash: [7, 5] },
    ]);
  }));
  const changeOne = (values) => { Object.assign(one, values); panel.set(one, { silent: true }); askOne(); };

  const weights = h("div", { class: "sliders", hidden: Boolean(asked.run) },
    slider("spectral radius of U", { min: 0.05, max: 2.5, step: 0.05, value: asked.radius }, (radius) => change({ radius })),
    slider("units", { min: 1, max: 24, step: 1, value: asked.units, digits: 0 }, (units) => change({ units })),
    slider("size of the inputs", { min: 0, max: 3, step: 0.1, value: asked.drive, digits: 1 }, (drive) => change({ drive })),
    h("div", {}, button("Draw other weights", () => change({ seed: asked.seed + 1 }), { class: "small" })));
  const [form, count] = asked.truncation.split(":");
  const cut = { form, k: Number(count ?? 8) };
  const changeCut = (values) => {
    Object.assign(cut, values);
    sliderCut.hidden = cut.form === "none";
    change({ truncation: cut.form === "none" ? "none" : `${cut.form}:${cut.k}` });
  };
  const sliderCut = slider("K of the truncation", { min: 1, max: 32, step: 1, value: cut.k, digits: 0 }, (k) => changeCut({ k }));
  sliderCut.hidden = form === "none";

  put(panel.place,
    h("p", { class: "soft" }, "∂h(t)/∂h(t−k) is a product of k Jacobians. Its norm says how much of a loss at step t still reaches step t − k."),
    h("div", { class: "card" },
      h("div", { class: "row" },
        choice("Network", [["", "a cell with random weights"], ...listed.runs.map((run) => [run.name, `the run ${run.name}`])], asked.run, (run) => change({ run })),
        choice("Cell", Object.keys(cells), asked.cell, (cell) => change({ cell })),
        choice("Truncation", [["none", "none"], ["every", "every:K"], ["window", "window:K"]], cut.form, (each) => changeCut({ form: each }))),
      h("div", { class: "sliders" },
        slider("length", { min: 4, max: 64, step: 1, value: asked.steps, digits: 0 }, (steps) => change({ steps })), sliderCut),
      weights),
    summary,
    h("h2", {}, "One pair of steps"),
    h("div", { class: "sliders" }, sliderT, sliderK), said, unrolled,
    h("div", { class: "columns" },
      h("section", {}, h("h2", {}, "All pairs"), h("p", { class: "soft" }, "t upwards, k to the right; orange grows, blue shrinks. Click a pair. Struck out: the truncation drops it."), h("div", {}, map), kept),
      h("section", {}, h("h2", {}, "From step t backwards"), curve.place)),
    outputs({
      name: "gradients",
      picture: { svg: () => blob("api/gradients/picture", asked, panel.signal) },
      numbers: { json: () => found, csv: () => toCsv(["t", "k", "log10_norm"], found.logs.flatMap((row, t) => row.map((value, k) => [t + 1, k, value]))) },
      python: () => found.python,
    }),
    h("h2", {}, "The scalar case"),
    h("p", { class: "soft" }, "One unit, h(t) = a(v h(t−1) + x): the gradient over k steps is a product of k numbers v a′."),
    h("div", { class: "sliders" },
      slider("weight v", { min: -3, max: 3, step: 0.01, value: one.weight }, (weight) => changeOne({ weight })),
      slider("input x", { min: -2, max: 2, step: 0.01, value: one.input }, (input) => changeOne({ input }))),
    h("div", { class: "row" }, choice("Activation a", ["tanh", "sigmoid", "relu", "softplus", "linear"], one.activation, (activation) => changeOne({ activation }))),
    alone.place,
    outputs({ name: "scalar", picture: { png: () => alone.asPng() }, numbers: { json: () => scalar.logs }, python: () => scalar.python }));
  await Promise.all([ask(), askOne()]);
}
