// Through time: a text, the state as a heat map of units over steps, one unit, one step, and the cell at work.
import { blob, bytes, get, post } from "../kit/api.js";
import { attempt } from "../kit/banner.js";
import { choice, field, figures, h, put, settle } from "../kit/dom.js";
import { HeatMap } from "../kit/heatmap.js";
import { keys } from "../kit/keys.js";
import { outputs } from "../kit/outputs.js";
import { CellAtWork } from "./time-cell.js";
import { colouredText, predictions, visible } from "./time-text.js";
import { UnitCard } from "./time-unit.js";

const LONGEST = 2000;
const EXAMPLE = { python: "def read(self, file):\n    return [line for line in file]\n" };

export async function show(panel) {
  const view = new ThroughTime(panel);
  view.about = await get("api/time/texts", { run: panel.run.name }, panel.signal);
  view.build();
  await view.read();
}

class ThroughTime {
  constructor(panel) {
    Object.assign(this, { panel, found: null, values: null, lines: "" });
    this.map = new HeatMap({
      label: "Units over steps. Arrow keys move from unit to unit and from step to step.", signal: panel.signal,
      columnText: (k) => (this.found?.tokens.length ? visible(this.found.tokens[k]) : k % 10 === 0 ? String(k) : ""),
      onPick: (row, column) => this.pick(row, column),
      onHover: (row, column, value) => { this.hovered.textContent = this.describe(row, column, value); },
    });
    this.hovered = h("p", { class: "soft mono one-line" }, "Point at a square to read its number; click one to look closer.");
    this.text = h("div", { class: "coloured", role: "group", "aria-label": "The text, coloured by the unit" });
    this.step = h("div", { class: "card", "aria-live": "polite" });
    this.unit = new UnitCard(panel);
    this.cell = new CellAtWork(panel);
    this.series = h("span");
    this.tellAddress = settle(() => panel.set({ t: this.t, unit: this.unitName }), 60);
  }

  get name() { return this.panel.get("series") ?? ""; }
  get unitName() { return `${this.shown}.${this.u}`; }

  build() {
    const { panel, about } = this;
    const parts = [this.source(), h("div", { class: "row" }, this.series, this.zoom()), this.map.place, this.hovered, legend()];
    if (about.reads_text) parts.push(this.text, h("div", { class: "columns" }, this.step, this.unit.place), this.cell.place);
    parts.push(outputs({
      name: `${panel.run.name}-${this.shown ?? "state"}`,
      picture: { svg: () => blob("api/time/picture.svg", this.asked({ series: this.shown })), png: () => this.map.asPng() },
      numbers: { json: () => ({ ...this.found, python: undefined }), csv: () => blob("api/time/values.csv", this.asked({ series: this.shown })) },
      python: () => `${this.lines}\nfound.of(${JSON.stringify(this.shown)})     # steps × units; found.plot(name=…) draws it`,
    }));
    put(panel.place, parts);
    panel.onAddress(() => this.follow());
    keys(panel, {
      ArrowRight: () => this.move(0, 1), ArrowLeft: () => this.move(0, -1), ArrowUp: () => this.move(-1, 0), ArrowDown: () => this.move(1, 0),
    });
  }

  // -- what is read ---------------------------------------------------------------------------------------------------

  source() {
    const { about, panel } = this;
    if (!about.reads_text) return h("p", { class: "soft" }, "This network reads no text: it is shown over a typical input of its task.");
    const typed = panel.get("text") ?? (about.documents.length ? "" : EXAMPLE.python);
    this.box = h("textarea", { rows: 3, maxlength: LONGEST, spellcheck: "false", value: typed, placeholder: "Type a text for the network to read" });
    this.box.value = typed;
    this.box.addEventListener("input", () => { this.edited = true; });
    const read = (changes) => { panel.set({ ...changes, t: null }, { step: true }); };
    const pick = about.documents.length
      ? choice("From the data, which it never saw", [["", "choose …"], ...about.documents.map((each, k) => [k, `${each.name} (${figures(each.length)} characters)`])], panel.get("document") ?? "", (value) => { this.edited = false; if (value !== "") read({ document: value, text: null, start: null }); })
      : h("p", { class: "soft" }, about.why ? `The data cannot be read: ${about.why}` : "");
    const form = h("form", { on: { submit: (event) => { event.preventDefault(); if (this.box.value) read({ text: this.box.value, document: null, start: null }); } } },
      field("A text of your own", this.box), h("div", { class: "row" }, h("button", { type: "submit", class: "main" }, "Read"), pick));
    return h("div", { class: "card" }, form);
  }

  asked(more = {}) {
    const [text, document, start] = ["text", "document", "start"].map((key) => this.panel.get(key));
    const what = text !== null ? { text } : document !== null ? { document: Number(document), start: Number(start ?? 0) } : this.about.documents.length ? { document: 0 } : { text: EXAMPLE.python };
    return { run: this.panel.run.name, ...(this.about.reads_text ? what : {}), ...more };
  }

  async read() {
    await attempt(async () => {
      const key = this.key = JSON.stringify(this.asked());
      const found = await post("api/time/read", this.asked(), this.panel.signal);
      if (key !== this.key) return;      // another text was asked for meanwhile
      this.found = found;
      this.lines = this.found.python;
      if (this.box && !this.edited && this.found.text !== null && this.panel.get("text") === null) this.box.value = this.found.text;
      await this.load();
    });
  }

  async load() {
    const names = Object.keys(this.found.shapes);
    this.shown = names.includes(this.name) ? this.name : names[0];
    put(this.series, choice("State or gate", names.map((name) => [name, `${name} — layer ${name.split(".")[0]}`]), this.shown, (series) => this.panel.set({ series, unit: null })));
    const [steps, units] = this.found.shapes[this.shown];
    const key = this.key, values = await bytes("api/time/values", this.asked({ series: this.shown }), this.panel.signal);
    if (key !== this.key) return;
    this.values = new Float32Array(values);
    this.map.set(this.values, units, steps);
    const [, , wanted] = /^(.*)\.(\d+)$/.exec(this.panel.get("unit") ?? "") ?? [];
    const asked = (this.panel.get("unit") ?? "").startsWith(`${this.shown}.`) ? Number(wanted) : 0;
    this.at(Math.min(asked, units - 1), Math.min(Number(this.panel.get("t") ?? Math.min(8, steps - 1)), steps - 1));
  }

  // The address changed: by this panel, by the one beside it, or by the back button.
  async follow() {
    if (this.busy) { this.again = true; return; }
    this.busy = true;
    try {
      if (JSON.stringify(this.asked()) !== this.key) await this.read();
      else if (this.name && this.name !== this.shown && this.found && this.name in this.found.shapes) await attempt(() => this.load());
      else if (this.found) {
        const [steps, units] = this.found.shapes[this.shown];
        const unit = this.panel.get("unit") ?? "";
        const u = unit.startsWith(`${this.shown}.`) ? Math.min(units - 1, Number(unit.split(".").pop())) : this.u;
        const t = Math.min(steps - 1, Number(this.panel.get("t") ?? this.t));
        if (u !== this.u || t !== this.t) this.at(u, t);
      }
    } finally { this.busy = false; }
    if (this.again) { this.again = false; await this.follow(); }
  }

  // -- one unit, one step ---------------------------------------------------------------------------------------------

  move(down, right) {
    if (!this.found) return;
    const [steps, units] = this.found.shapes[this.shown];
    this.pick(Math.max(0, Math.min(units - 1, this.u + down)), Math.max(0, Math.min(steps - 1, this.t + right)));
  }

  pick(u, t) {
    this.at(u, t);
    this.tellAddress();
  }

  at(u, t) {
    const before = this.u;
    Object.assign(this, { u, t });
    this.map.move(u, t, false);
    this.hovered.textContent = this.describe(u, t, this.values[u * this.map.columns + t]);
    if (!this.about.reads_text) return;
    const row = this.values.subarray(u * this.map.columns, (u + 1) * this.map.columns);
    const renew = before !== u || this.drawnFor !== this.key + this.shown;
    if (renew) put(this.text, colouredText(this.found.tokens, row, this.map.scale, (k) => this.pick(this.u, k)));
    this.drawnFor = this.key + this.shown;
    this.text.querySelector("[aria-current]")?.removeAttribute("aria-current");
    this.text.children[0]?.children[t]?.setAttribute("aria-current", "true");
    put(this.step, predictions(this.found, t));
    this.unit.show(this.asked({ unit: this.unitName }), this.found);
    this.cell.show(this.asked({ step: t, layer: parseInt(this.shown, 10) }), u);
  }

  describe(row, column, value) {
    const token = this.found.tokens.length ? ` after ${JSON.stringify(this.found.tokens[column])}` : "";
    return `${this.shown}.${row} at step ${column}${token}: ${figures(value)}`;
  }

  zoom() {
    const input = h("input", { type: "range", min: 3, max: 28, value: this.panel.get("zoom", 14), on: { input: () => { this.map.cell = Number(input.value); this.map.resize(); this.panel.set({ zoom: input.value }, { silent: true }); } } });
    input.value = this.panel.get("zoom", 14);
    this.map.cell = Number(input.value);
    return field("Size of a square", input);
  }
}

const legend = () => h("p", { class: "legend soft" }, h("span", { class: "swatch low", "aria-hidden": "true" }), "negative", h("span", { class: "swatch zero", "aria-hidden": "true" }), "zero", h("span", { class: "swatch high", "aria-hidden": "true" }), "positive");
