// Runs: all of a folder as they train. Those that are ticked are compared; the address has them.
import { followTogether, get, post } from "../kit/api.js";
import { link, read } from "../kit/address.js";
import { attempt } from "../kit/banner.js";
import { line } from "../kit/colours.js";
import { Curves } from "../kit/curves.js";
import { button, choice, field, figures, h, pace, put, svg, table } from "../kit/dom.js";
import { outputs, toCsv } from "../kit/outputs.js";
import { startForm } from "./start.js";

const COLUMNS = [
  ["name", "run"], ["recipe", "recipe"], ["cell", "cell"], ["state", "state"], ["step", "step", true], ["loss", "loss", true], ["best_valid", "best validation", true],
];
const SHOWN = 6;
const STATES = { training: "●", finished: "✓", stopped: "◼", new: "○" };

export async function show(panel) {
  const view = new Runs(panel);
  view.build();
  await view.first();
}

class Runs {
  constructor(panel) {
    Object.assign(this, { panel, runs: new Map(), names: [], ticked: [], wanted: [], curves: {}, metrics: ["loss", "valid"], lines: "" });
    this.body = h("tbody");
    this.compared = h("div");
    this.log = h("div", { "aria-live": "polite" });
    this.count = h("span", { class: "soft", role: "status" });
    this.plot = new Curves({ label: "Curves of the runs that are ticked", signal: panel.signal });
    this.draw = pace(() => this.fetchCurves(), 2500);
  }

  // -- what stands on the page ----------------------------------------------------------------------------------------

  build() {
    const { panel } = this;
    this.filter = h("input", { type: "search", value: panel.get("filter", ""), placeholder: "name, recipe, cell or state", on: { input: () => { panel.set({ filter: this.filter.value }, { silent: true }); this.fill(); } } });
    this.metric = h("select", { on: { change: () => { panel.set({ metric: this.metric.value }, { silent: true }); this.fetchCurves(); } } });
    this.scale = h("input", { type: "checkbox", checked: panel.get("log") === "1", on: { change: () => { panel.set({ log: this.scale.checked ? "1" : null }, { silent: true }); this.redraw(); } } });
    this.heads = h("tr", {}, h("th", { scope: "col" }, h("span", { class: "hint" }, "plot")), COLUMNS.map(([key, title, number]) => h("th", { scope: "col", class: number ? "number" : null, "data-key": key }, button(title, () => this.sortBy(key)))), h("th", { scope: "col" }, "look closer"), h("th", { scope: "col" }, "training"));
    put(panel.place,
      startForm((name) => this.begun(name)),
      this.log,
      h("div", { class: "card" },
        h("div", { class: "row" }, field("Metric", this.metric), h("label", { class: "tick" }, this.scale, "logarithmic"), button("Tick none", () => this.tick([]), { class: "small" })),
        this.plot.place),
      h("div", { class: "row" }, field("Filter", this.filter), this.count),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Runs of the folder" }, h("table", { class: "runs" }, h("thead", {}, this.heads), this.body)),
      this.compared,
      outputs({
        name: "curves",
        picture: { png: () => this.plot.asPng() },
        numbers: { json: () => this.curves, csv: () => toCsv(["run", "step", this.metric.value], Object.entries(this.curves).flatMap(([name, each]) => each.steps.map((step, k) => [name, step, each.mean[k]]))) },
        python: () => this.lines,
      }));
    panel.onAddress(() => this.readAddress());
    document.addEventListener("visibilitychange", () => this.refresh(), { signal: panel.signal });
  }

  async first() {
    const listed = await get("api/runs/list", {}, this.panel.signal);
    this.take({ runs: listed.runs, names: listed.runs.map((run) => run.name) });
    const asked = read().params.getAll("run");
    this.tick(asked.length ? asked : this.names.slice(0, SHOWN), true);
    followTogether("api/runs/live", (news) => this.take(news), this.panel.signal);
  }

  take({ runs, names }) {
    const late = runs.some((run) => !this.runs.has(run.name) && this.wanted.includes(run.name));
    const changed = runs.filter((run) => this.runs.has(run.name));
    runs.forEach((run) => this.runs.set(run.name, run));
    this.names = names;
    [...this.runs.keys()].filter((name) => !names.includes(name)).forEach((name) => this.runs.delete(name));
    this.stale = this.stale || changed.some((run) => this.ticked.includes(run.name));
    if (late) this.tick(this.wanted, true);
    else this.refresh();
  }

  // A page that nobody sees costs nothing; it catches up when it is looked at.
  refresh() {
    if (document.hidden) return;
    this.fill();
    if (this.stale) this.draw();
    this.stale = false;
  }

  readAddress() {
    const asked = read().params.getAll("run");
    if (asked.length && asked.join() !== this.wanted.join()) this.tick(asked, true);
  }

  // -- the table ------------------------------------------------------------------------------------------------------

  sortBy(key) {
    const now = this.panel.get("sort", "");
    this.panel.set({ sort: now === key ? `-${key}` : now === `-${key}` ? null : key }, { silent: true });
    this.fill();
  }

  sorted() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.names.map((name) => this.runs.get(name)).filter((run) => run && words.every((word) => `${run.name} ${run.recipe} ${run.cell} ${run.state}`.toLowerCase().includes(word)));
    const sort = this.panel.get("sort", "");
    const key = sort.replace(/^-/, "");
    if (!key) return found;
    const sign = sort.startsWith("-") ? -1 : 1;
    const missing = (run) => run[key] === null || run[key] === undefined;
    return found.sort((a, b) => missing(a) - missing(b) || sign * (typeof a[key] === "number" ? a[key] - b[key] : String(a[key]).localeCompare(String(b[key]))));
  }

  fill() {
    const shown = this.sorted();
    const sort = this.panel.get("sort", "");
    this.heads.querySelectorAll("[data-key]").forEach((head) => {
      const { key } = head.dataset;
      if (sort.replace(/^-/, "") === key) head.setAttribute("aria-sort", sort.startsWith("-") ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const at = document.activeElement?.closest?.("[data-control]")?.dataset.control;
    put(this.body, shown.map((run) => this.row(run)));
    if (at) this.body.querySelector(`[data-control="${CSS.escape(at)}"]`)?.focus();
    this.count.textContent = shown.length === this.names.length ? `${shown.length} runs` : `${shown.length} of ${this.names.length} runs`;
  }

  row(run) {
    const k = this.ticked.indexOf(run.name);
    const tick = h("input", { type: "checkbox", checked: k >= 0, "aria-label": `Plot ${run.name}`, "data-control": `tick ${run.name}`, on: { change: (event) => this.tick(event.target.checked ? [...this.ticked, run.name] : this.ticked.filter((name) => name !== run.name)) } });
    const swatch = k >= 0 ? svg("svg", { width: 14, height: 10, "aria-hidden": "true" }, svg("rect", { width: 14, height: 4, y: 3, fill: line(k) })) : null;
    const cells = COLUMNS.map(([key, , number]) => h("td", { class: number ? "number" : key === "name" ? "name" : null }, this.cell(run, key)));
    const views = [["time", "through time"], ["generate", "generate"]].map(([view, title]) => h("a", { href: link(view, { run: run.name }) }, title));
    const act = { training: ["Stop", "stop"], stopped: ["Resume", "resume"] }[run.state];
    const control = act ? button(act[0], () => attempt(async () => { await post(`api/runs/${act[1]}`, { run: run.name }); this.follow(run.name); }), { class: "small", "data-control": `${act[1]} ${run.name}`, "aria-label": `${act[0]} ${run.name}` }) : null;
    return h("tr", { class: k >= 0 ? "chosen" : null }, h("td", {}, h("label", { class: "tick" }, tick, swatch)), cells, h("td", { class: "links" }, views), h("td", {}, control));
  }

  cell(run, key) {
    if (key === "state") return h("span", { class: `state ${run.state}` }, h("span", { "aria-hidden": "true" }, `${STATES[run.state]} `), run.state);
    if (key === "step") return run.steps && run.state !== "finished" ? `${figures(run.step)} / ${figures(run.steps)}` : figures(run.step);
    return typeof run[key] === "number" || run[key] === null ? figures(run[key]) : run[key];
  }

  // -- what is ticked -------------------------------------------------------------------------------------------------

  tick(names, silent = false) {
    this.wanted = names.slice(0, 32); // a run may be named before it has a folder
    this.ticked = this.wanted.filter((name) => this.runs.has(name));
    if (!silent) this.panel.set({ run: this.wanted }, { silent: true });
    this.fill();
    this.fetchCurves();
    this.compare();
  }

  async fetchCurves() {
    if (!this.ticked.length) { this.curves = {}; this.redraw(); return; }
    const metric = this.panel.get("metric") ?? (this.metric.value || "loss");
    await attempt(async () => {
      const found = await get("api/runs/curves", { run: this.ticked, metric }, this.panel.signal);
      Object.assign(this, { curves: found.curves, lines: found.python });
      if (found.metrics.join() !== this.metrics.join() || !this.metric.options.length) {
        this.metrics = found.metrics;
        put(this.metric, found.metrics.map((name) => h("option", { value: name, selected: name === metric }, name)));
      }
      this.redraw();
    });
  }

  redraw() {
    const lines = this.ticked.filter((name) => this.curves[name]).map((name) => ({ label: name, x: this.curves[name].steps, y: this.curves[name].mean, k: this.ticked.indexOf(name), points: this.curves[name].steps.length < 3 }));
    this.plot.set(lines, { log: this.scale.checked });
  }

  async compare() {
    const names = this.ticked;
    if (!names.length) { put(this.compared); return; }
    await attempt(async () => {
      const { settings, scores } = await get("api/runs/compared", { run: names }, this.panel.signal);
      if (names !== this.ticked) return;
      const show = (value) => (value === null || value === undefined ? "–" : Array.isArray(value) ? value.join(", ") : String(value));
      put(this.compared, h("div", { class: "columns" },
        names.length > 1 ? h("div", { class: "card" }, h("h2", {}, "Settings that differ"), settings.length
          ? table("Settings that differ", ["setting", ...names], settings.map((row) => [h("code", {}, row.key), ...row.values.map(show)]))
          : h("p", { class: "soft" }, "None: these runs have the same settings.")) : null,
        h("div", { class: "card" }, h("h2", {}, "Scores"), names.map((name) => this.scores(name, scores[name])))));
    });
  }

  scores(name, found) {
    const place = h("div", { class: "scores" });
    const fill = (each) => {
      const columns = [...new Set(Object.values(each.scores).flatMap(Object.keys))];
      put(place, table(`${name}: ${each.data}, ${figures(each.tokens)} predictions`, ["model", ...columns.map((column) => ({ name: column, number: true }))], Object.entries(each.scores).map(([model, row]) => [model, ...columns.map((column) => figures(row[column]))])));
    };
    if (found) fill(found);
    else {
      const ask = button(`Evaluate ${name}`, () => attempt(async () => {
        Object.assign(ask, { disabled: true, textContent: `Evaluating ${name} …` });
        try { fill(await post("api/runs/evaluate", { run: name }, this.panel.signal)); } finally { Object.assign(ask, { disabled: false, textContent: `Evaluate ${name}` }); }
      }), { class: "small" });
      put(place, ask);
    }
    return place;
  }

  // -- trainings ------------------------------------------------------------------------------------------------------

  begun(name) {
    this.tick([...this.ticked.slice(0, 31), name]);
    this.follow(name);
  }

  // What the training prints, until it has a folder and ends.
  async follow(name) {
    const text = h("pre", { tabindex: "0", "aria-label": `What the training of ${name} prints` });
    put(this.log, h("div", { class: "card" }, h("h2", {}, name), text, button("Close", () => { stop = true; put(this.log); }, { class: "small" })));
    let stop = false;
    for (let quiet = 0; !stop && !this.panel.signal.aborted && quiet < 4;) {
      const found = await get("api/runs/printed", { run: name }, this.panel.signal).catch(() => ({ text: "" }));
      text.textContent = found.text || "Starting …";
      text.scrollTop = text.scrollHeight;
      const state = this.runs.get(name)?.state;
      quiet = state && state !== "training" ? quiet + 1 : /^recurra: /m.test(found.text) ? quiet + 1 : 0;
      if (state && quiet === 1) this.tick(this.ticked);
      await new Promise((resolve) => { setTimeout(resolve, 700); });
    }
  }
}
