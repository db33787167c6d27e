// The bench: equations as they are typed, what they are, a phase portrait with a slider for every weight, and a training.
import { blob, get, post } from "../kit/api.js";
import { link } from "../kit/address.js";
import { attempt } from "../kit/banner.js";
import { Curves } from "../kit/curves.js";
import { button, choice, field, h, put, settle, table } from "../kit/dom.js";
import { outputs, toCsv } from "../kit/outputs.js";
import { LEGEND, PlaneView } from "../kit/plane.js";
import { newest, slider } from "../kit/slider.js";
import { tabs } from "../kit/tabs.js";

const REACH = 1.6;
const KEY = "recurra-lab-bench";
const KERNELS = [["cpp", "C++ (CPU)"], ["cuda", "CUDA"], ["triton", "Triton"]];

export async function show(panel) {
  const known = await get("api/bench/catalogue", {}, panel.signal);
  const first = panel.get("cell", "");
  let source = known.cells[first] ?? sessionStorage.getItem(KEY) ?? known.cells.gru;
  let read = null;
  const portrait = { units: Number(panel.get("units", 2)), seed: Number(panel.get("seed", 0)), input: 0, start: [0.8, 0.4], weights: {} };
  let seen = null;

  // -- the text ---------------------------------------------------------------------------------------------------
  const text = h("textarea", { class: "equations", spellcheck: "false", autocapitalize: "off", autocomplete: "off", rows: "14", "aria-label": "Equations of the cell", "aria-describedby": "bench-fault" });
  text.value = source;
  const marks = h("pre", { class: "marks", "aria-hidden": "true" });
  const fault = h("p", { id: "bench-fault", class: "fault", role: "status" });
  const editor = h("div", { class: "editor" }, marks, text);
  text.addEventListener("scroll", () => { marks.scrollTop = text.scrollTop; marks.scrollLeft = text.scrollLeft; });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
    const before = text.value.slice(0, text.selectionStart);
    const line = before.slice(before.lastIndexOf("\n") + 1);
    const indent = line.match(/^\s*/)[0] + (line.trimEnd().endsWith(":") ? "    " : "");
    event.preventDefault();
    text.setRangeText(`\n${indent}`, text.selectionStart, text.selectionEnd, "end");
    text.dispatchEvent(new Event("input"));
  });
  const typed = settle(() => { source = text.value; sessionStorage.setItem(KEY, source); panel.set({ cell: null }, { silent: true }); ask(); }, 300);
  text.addEventListener("input", () => { mark(null); typed(); });

  function mark(place) {
    text.setAttribute("aria-invalid", String(Boolean(place)));
    if (!place) { put(marks); put(fault); return; }
    const lines = text.value.split("\n");
    const line = lines[place.line - 1] ?? "";
    const [from, to] = [place.column - 1, Math.max(place.column, (place.end ?? line.length + 1) - 1)];
    const before = lines.slice(0, place.line - 1).map((each) => `${each}\n`).join("") + line.slice(0, from);
    put(marks, before, h("mark", {}, line.slice(from, to) || " "));
    put(fault, h("b", {}, `Line ${place.line}, column ${place.column}: `), place.remark);
    marks.scrollTop = text.scrollTop;
  }

  const ask = newest(() => attempt(async () => {
    const found = await post("api/bench/read", { source }, panel.signal);
    mark(found.error_at ?? null);
    stale.hidden = !found.error_at || !read;
    trainButton.disabled = Boolean(found.error_at);
    if (found.error_at) return;
    read = found;
    drawAbout();
    portrait.weights = {};
    await portray(true);
  }));

  // -- what the cell is -------------------------------------------------------------------------------------------
  const image = h("img", { class: "bench-picture", alt: "" });
  const about = h("div", { class: "about" });
  const stale = h("p", { class: "hint", hidden: true }, "Below: the last text that could be read.");
  let language = "cpp";

  function drawAbout() {
    if (image.src) URL.revokeObjectURL(image.src);
    image.hidden = !read.picture;
    if (read.picture) image.src = URL.createObjectURL(new Blob([read.picture], { type: "image/svg+xml" }));
    image.alt = `The cell ${read.name}: ${read.equations.join("; ")}`;
    const engines = Object.entries(read.engines).map(([name, why]) => [name, why ? "no" : "yes", why || "–"]);
    const stages = read.stages.map((stage, k) => [String(k + 1), stage.map((each) => `U.[${each.matrices.join(", ")}](${each.of})`).join("; ")]);
    put(about, tabs("About the cell", [
      { name: "picture", title: "Picture", show: (place) => put(place, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Picture of the cell" }, read.picture ? image : h("p", {}, "The cell has too many operations to be drawn."))) },
      { name: "equations", title: "Equations", show: (place) => put(place, h("pre", { tabindex: "0", "aria-label": "Equations as they were read" }, read.equations.join("\n"))) },
      { name: "parameters", title: "Parameters", show: (place) => put(place, table("H units, D inputs", ["name", "shape", "first value"], read.parameters.map((each) => [each.name, each.shape, each.first]))) },
      { name: "stages", title: "Stages", show: (place) => put(place, stages.length ? table("Products that wait for one another in a step", ["stage", "products"], stages) : h("p", {}, "No matrix multiplies the state."),
        h("p", { class: "soft" }, `Linear in the state: ${read.linear ? "yes" : "no"}. Diagonal Jacobian: ${read.diagonal ? "yes" : "no"}.`)) },
      { name: "engines", title: "Engines", show: (place) => put(place, table("Which engines run it here", ["engine", "runs it", "why not"], engines)) },
      { name: "kernel", title: "Kernel", show: showKernel },
    ], panel.get("about", "picture"), (name) => panel.set({ about: name }, { silent: true })));
  }

  function showKernel(place) {
    const lines = h("pre", { class: "kernel", tabindex: "0", "aria-label": "Kernel source" }, "…");
    const load = () => attempt(async () => put(lines, (await post("api/bench/kernel", { source, language }, panel.signal)).text));
    put(place, choice("Generated for", KERNELS, language, (each) => { language = each; load(); }), lines);
    load();
  }

  // -- the portrait -----------------------------------------------------------------------------------------------
  const plane = new PlaneView({
    label: "Phase portrait. Arrow keys move the cursor, Enter drops a state.", signal: panel.signal,
    drop: (place) => { portrait.start = place; portray(false); },
  });
  const points = h("p", { class: "soft", role: "status" });
  const sliders = h("div", { class: "sliders", role: "group", "aria-label": "Weights" });

  const portray = newest(async (fresh) => {
    await attempt(async () => {
      const body = { source, units: portrait.units, seed: portrait.seed, weights: portrait.weights, input: portrait.input, start: portrait.start };
      seen = await post("api/bench/portrait", body, panel.signal);
      const grid = seen.field ?? { low: [-REACH, -REACH], high: [REACH, REACH] };
      plane.set({ ...grid, axes: seen.axes, curve: seen.curve, points: seen.points.map((each) => ({ ...each, label: "" })) });
      plane.follow(seen.path);
      points.textContent = seen.points.length ? seen.points.slice(0, 12).map((each) => `${each.kind} at (${each.place.map((value) => value.toFixed(2)).join(", ")})`).join("; ") : "No fixed point near.";
      if (fresh) drawSliders();
    });
  });

  function drawSliders() {
    put(sliders, seen.weights.map((each) => slider(each.name, { min: Math.min(each.low, each.value), max: Math.max(each.high, each.value), step: 0.01, value: each.value }, (value) => {
      portrait.weights[each.name] = value;
      portray(false);
    })));
  }

  const again = (changes) => { Object.assign(portrait, changes, { weights: {} }); panel.set({ units: portrait.units, seed: portrait.seed }, { silent: true }); portray(true); };

  // -- the training -----------------------------------------------------------------------------------------------
  const training = { task: "tomita", steps: 300, units: 16 };
  const status = h("p", { role: "status", class: "training-status" });
  const loss = new Curves({ label: "Loss of the training", signal: panel.signal, height: 220 });
  const trainButton = button("Train this", () => attempt(train), { class: "main" });
  const stopButton = button("Stop", () => attempt(() => post("api/runs/stop", { run: trained }, panel.signal)), { hidden: true });
  let trained = null;

  async function train() {
    const { run } = await post("api/bench/train", { source, ...training }, panel.signal);
    trained = run;
    stopButton.hidden = false;
    put(status, `Starting ${run} …`);
    watch(run);
  }

  // Steps as they arrive: the curve of the run, asked for once a second until it has ended.
  async function watch(run) {
    let waits = 0;
    for (; !panel.signal.aborted && trained === run;) {
      await new Promise((resolve) => { setTimeout(resolve, 700); });
      const found = await get("api/runs/list", {}, panel.signal).catch(() => null);
      const row = found?.runs.find((each) => each.name === run);
      if (!row) {
        const { text: said } = await get("api/runs/printed", { run }, panel.signal);
        waits += 1;
        if (waits > 60 || /error|usage/i.test(said)) { put(status, `${run} did not start: ${said.trim().split("\n").pop() || "no answer"}`); stopButton.hidden = true; return; }
        continue;
      }
      const { curves } = await get("api/runs/curves", { run, metric: "loss" }, panel.signal);
      const curve = curves[run];
      if (curve) loss.set([{ label: "loss", x: curve.steps, y: curve.mean, k: 0 }]);
      const ended = row.step >= training.steps || (row.state && row.state !== "training" && row.step > 0);
      put(status, h("span", { class: "step-count" }, `${run}: step ${row.step} of ${training.steps}. `), ended ? h("span", {}, "Ended. ") : null,
        h("a", { href: link("runs", { run }) }, "Runs"), " · ", h("a", { href: link("space", { run }) }, "State space"));
      if (ended) { stopButton.hidden = true; return; }
    }
  }

  put(panel.place,
    h("p", { class: "soft" }, "Type equations in the notation. The text is read, never run."),
    h("div", { class: "columns bench" },
      h("section", {},
        h("div", { class: "row" }, choice("Start from", [["", "…"], ...Object.keys(known.cells)], first, (name) => {
          if (!known.cells[name]) return;
          text.value = source = known.cells[name];
          panel.set({ cell: name }, { silent: true });
          mark(null);
          ask();
        })),
        editor, fault,
        h("p", { class: "hint" }, "x.NAME is W x + b, U.NAME(v) a recurrent product, ago(h, 4) the state four steps before; tanh, sigmoid, where, norm …; parameters after *: Learned(0.9, low=0, high=1), Fixed([1, 2]).")),
      h("section", {}, stale, about,
        h("div", { class: "card" }, h("h2", {}, "Train this"),
          h("div", { class: "row" },
            choice("Task", Object.entries(known.tasks), training.task, (task) => { training.task = task; }),
            field("Steps", h("input", { type: "number", min: "1", max: "20000", value: "300", on: { input: (event) => { training.steps = Number(event.target.value); } } })),
            field("Units", h("input", { type: "number", min: "1", max: "256", value: "16", on: { input: (event) => { training.units = Number(event.target.value); } } }))),
          h("div", { class: "row" }, trainButton, stopButton), status, loss.place))),
    h("h2", {}, "Phase portrait"),
    h("div", { class: "columns portrait" },
      h("div", {}, plane.place, h("p", { class: "hint" }, LEGEND, " Click to drop a state."), points),
      h("div", {},
        h("div", { class: "row" },
          choice("Units", [["1", "one"], ["2", "two"]], portrait.units, (units) => again({ units: Number(units) })),
          button("Other random weights", () => again({ seed: portrait.seed + 1 }))),
        h("div", { class: "sliders" }, slider("input x, held", { min: -3, max: 3, step: 0.05, value: 0 }, (input) => { portrait.input = input; portray(false); })),
        h("h3", {}, "Weights"), sliders)),
    outputs({
      name: "cell",
      picture: {
        svg: () => (read?.picture ? new Blob([read.picture], { type: "image/svg+xml" }) : ""),
        png: () => new Promise((resolve) => { plane.canvas.toBlob(resolve, "image/png"); }),
      },
      numbers: { json: () => ({ cell: { ...read, picture: undefined }, portrait: seen }), csv: () => toCsv(["weight", "value"], seen.weights.map((each) => [each.name, portrait.weights[each.name] ?? each.value])) },
      python: () => read?.python ?? "",
    }));
  await ask();
}
