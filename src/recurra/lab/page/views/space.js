// State space: trajectories, fixed points, field and basins of a run; states that are dropped; the automaton; the washing machine.
import { blob, get, post } from "../kit/api.js";
import { attempt } from "../kit/banner.js";
import { line } from "../kit/colours.js";
import { button, choice, field, h, put, svg, table } from "../kit/dom.js";
import { outputs, toCsv } from "../kit/outputs.js";
import { LEGEND, PlaneView } from "../kit/plane.js";
import { newest, slider } from "../kit/slider.js";
import { showMachine } from "./machine.js";

export async function show(panel) {
  const run = panel.run.name;
  const known = await get("api/space/open", { run }, panel.signal);
  const kept = known.snapshots;
  const asked = {
    run, input: known.inputs.includes(panel.get("input")) ? panel.get("input") : known.first,
    step: kept.includes(Number(panel.get("at", -1))) ? Number(panel.get("at")) : null,
    units: (panel.get("units", "") || "").split(",").filter(Boolean).map(Number).filter((each) => each < known.size).slice(0, 3),
  };
  const shown = { basins: panel.get("basins", "0") === "1", deep: panel.get("deep", "0") === "1" };
  const seen = { field: null, points: null, basins: null, groups: null, drop: null };
  let turn = 0;

  const status = h("p", { role: "status", class: "verdict" });
  const said = h("p", { class: "soft", role: "status" });
  const hint = h("p", { class: "hint" });
  const listed = h("div");
  const machineView = h("div");
  const picture = h("div", { class: "scroll automaton", tabindex: "0", role: "region", "aria-label": "The automaton" });
  const plane = new PlaneView({
    label: "State space. In two dimensions arrow keys move the cursor and Enter drops a state; in three they turn it.", signal: panel.signal,
    drop: (place) => drop(place), hover: (number) => light(number),
  });
  plane.deep = shown.deep;

  function light(number) {
    plane.light(number);
    picture.querySelectorAll("[data-state]").forEach((each) => each.classList.toggle("lit", Number(each.dataset.state) === number));
  }

  function redraw() {
    if (!seen.field) return;
    const labels = known.machine || (seen.points?.points.length ?? 99) <= 16;
    const points = (seen.points?.points ?? []).map((each) => ({ ...each, label: labels && each.attractor !== null ? each.says : "", attractor: seen.groups && !known.machine ? null : each.attractor }));
    put(hint, shown.deep ? "Drag, or use the arrow keys, to turn." : `${LEGEND} Click to drop a state and watch it move.`);
    plane.set({ ...seen.field, points, basins: shown.basins ? seen.basins : null, groups: seen.groups });
  }

  // The field first, which is quick; then what has to be searched for. An answer that came too late is dropped.
  const look = newest(() => attempt(async () => {
    const mine = ++turn;
    const body = { ...asked };
    status.textContent = "Looking …";
    seen.field = await post("api/space/field", body, panel.signal);
    if (!seen.groupsFor || seen.groupsFor !== JSON.stringify([asked.step, asked.units])) seen.groups = null;
    redraw();
    try {
      seen.points = await post("api/space/points", body, panel.signal);
      status.textContent = seen.points.summary.split(". Completeness")[0];
    } catch (error) {
      if (error.name === "AbortError") throw error;
      seen.points = null;
      status.textContent = error.message;
    }
    if (shown.basins && seen.points) seen.basins = await post("api/space/basins", body, panel.signal);
    if (mine !== turn) return;
    drawList();
    redraw();
  }));

  function change(values) {
    Object.assign(asked, values);
    panel.set({ input: asked.input, at: asked.step, units: asked.units.join(",") || null, basins: shown.basins ? 1 : null, deep: shown.deep ? 1 : null }, { silent: true });
    plane.trail = null;
    seen.basins = null;
    look();
  }

  function drawList() {
    const rows = (seen.points?.points ?? []).slice(0, 40).map((each) => [h("span", { style: { color: each.attractor === null ? "inherit" : line(each.attractor) } }, each.attractor === null ? "○" : "●"), each.kind, each.says || "–", each.largest_eigenvalue.toPrecision(3)]);
    put(listed, rows.length ? h("details", {}, h("summary", {}, `${rows.length} fixed points`), table("Fixed points", ["", "kind", "the network predicts", { name: "largest |λ|", number: true }], rows)) : null);
  }

  const drop = newest((place) => attempt(async () => {
    seen.drop = await post("api/space/drop", { ...asked, place, steps: 60 }, panel.signal);
    plane.follow(seen.drop.path);
    const words = seen.drop.predictions.filter((each, k, all) => each !== all[k - 1]);
    put(said, h("b", {}, "Dropped: "), `${seen.drop.summary}${words.length > 1 ? `. On its way it predicts ${words.join(" → ")}` : ""}.`);
  }));

  // -- the automaton ----------------------------------------------------------------------------------------------
  const summary = h("p", { class: "soft" });
  const extract = button("Extract the automaton", () => attempt(async () => {
    extract.disabled = true;
    summary.textContent = "Extracting …";
    try {
      const found = await post("api/space/automaton", asked, panel.signal);
      seen.groups = { places: found.places, numbers: found.numbers };
      seen.groupsFor = JSON.stringify([asked.step, asked.units]);
      summary.textContent = `${found.summary.replace(/\.$/, "")}. Point at a state, here or there.`;
      put(picture, drawAutomaton(found.layout));
      redraw();
    } finally {
      extract.disabled = false;
      if (summary.textContent === "Extracting …") summary.textContent = "";
    }
  }));

  function drawAutomaton(layout) {
    const parts = layout.lines.map((each) => svg("path", { d: `M${each.x} ${each.y}H${each.track}V${each.end[1]}H${each.end[0]}`, class: "edge", style: { stroke: line(each.to) } }));
    layout.lines.forEach(({ end: [x, y], to }) => parts.push(svg("path", { d: `M${x} ${y}l8 -4v8z`, style: { fill: line(to) } })));
    layout.labels.forEach(([x, y, text]) => parts.push(svg("text", { x, y: y + 4, class: "mono-text" }, text)));
    layout.boxes.forEach((box, k) => parts.push(svg("g", {
      "data-state": k, class: "automaton-state", tabindex: "0", role: "button", "aria-label": `State ${box.name}`,
      on: { pointerenter: () => light(k), pointerleave: () => light(null), focus: () => light(k), blur: () => light(null) },
    },
    svg("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: 8, style: { stroke: line(k) } }),
    svg("text", { x: box.x + box.width / 2, y: box.y + box.height / 2 + 4, "text-anchor": "middle", class: "mono-text strong" }, box.name))));
    return svg("svg", { width: layout.width, height: layout.height, viewBox: `0 0 ${layout.width} ${layout.height}`, role: "group", "aria-label": "Automaton" }, parts);
  }

  // -- controls ---------------------------------------------------------------------------------------------------
  const units = h("input", { type: "text", value: asked.units.join(", "), placeholder: "e.g. 0, 3, 5", on: { change: () => {
    const chosen = units.value.split(/[\s,]+/).filter(Boolean).map(Number);
    change({ units: chosen });
  } } });
  const stepName = h("output", {}, "");
  const scrub = kept.length ? h("input", {
    type: "range", min: "0", max: String(kept.length), step: "1", "aria-label": "Checkpoint",
    on: { input: () => { nameStep(); change({ step: stepAt() }); machine?.refresh(); } },
  }) : null;
  const stepAt = () => (Number(scrub.value) >= kept.length ? null : kept[Number(scrub.value)]);
  const nameStep = () => { const step = stepAt(); stepName.textContent = step === null ? "best" : step === 0 ? "untrained" : `step ${step}`; };
  if (scrub) {
    scrub.value = String(asked.step === null ? kept.length : kept.indexOf(asked.step));
    nameStep();
  }
  const toggle = (name, text, then) => {
    const made = button(text, () => { shown[name] = !shown[name]; made.setAttribute("aria-pressed", String(shown[name])); then(); }, { "aria-pressed": String(shown[name]) });
    return made;
  };

  put(panel.place,
    h("div", { class: "row" },
      choice("Input that is held", known.inputs, asked.input, (input) => change({ input })),
      field("Axes: units (empty: principal components)", units),
      toggle("basins", "Basins", () => change({})),
      toggle("deep", "Three dimensions", () => { plane.deep = shown.deep; change({}); })),
    scrub ? h("div", { class: "slider scrubber" }, h("span", { class: "slider-name", "aria-hidden": "true" }, "Checkpoint"), scrub, stepName)
      : h("p", { class: "hint" }, "This run kept no weights on the way. Train with training.snapshots=20 to watch attractors form."),
    h("div", { class: "columns space" },
      h("div", {}, plane.place, hint, said),
      h("div", {}, status, listed,
        known.automaton || known.machine ? h("section", {}, h("h2", {}, "Automaton"), h("div", { class: "row" }, extract), summary, picture) : null)),
    machineView,
    outputs({
      name: `${run}-space`,
      picture: { svg: () => blob("api/space/picture", asked, panel.signal), png: () => new Promise((resolve) => { plane.canvas.toBlob(resolve, "image/png"); }) },
      numbers: {
        json: () => ({ asked, ...seen }),
        csv: () => toCsv(["kind", "predicts", "largest_eigenvalue", "a", "b", "c"], (seen.points?.points ?? []).map((each) => [each.kind, each.says, each.largest_eigenvalue, ...each.place])),
      },
      python: () => seen.field.python,
    }));
  const machine = known.machine ? showMachine(panel, machineView, asked, (path) => { plane.follow(path); }) : null;
  await look();
}
