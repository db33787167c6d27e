// The cell at work at one step: its picture with the numbers of one unit in it, and the row of the table.
import { get, link, post } from "../kit/api.js";
import { Refused } from "../kit/api.js";
import { figures, h, put, settle, svg, table } from "../kit/dom.js";
import { tell } from "../kit/banner.js";

const plain = (name) => name.replace(/[_{}]/g, "").replaceAll("−", "-");

export class CellAtWork {
  constructor(panel) {
    this.panel = panel;
    this.picture = h("div", { class: "cell-picture scroll", tabindex: "0", role: "region", "aria-label": "The cell, with the numbers of this unit at this step" });
    this.rows = h("div");
    this.title = h("h2", {}, "The cell at work");
    this.place = h("div", { class: "card" }, this.title, h("div", { class: "columns wide" }, this.picture, this.rows));
    this.fetch = settle(() => this.load().catch(tell), 150);
  }

  show(asked, unit) {
    Object.assign(this, { asked, unit });
    this.fetch();
  }

  async load() {
    const { asked, unit } = this;
    if (!this.drawing) await this.draw();
    try {
      const { row } = await post("api/time/step", asked, this.panel.signal);
      if (asked !== this.asked) return;
      this.fill(row, unit);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      put(this.rows, h("p", { class: "soft" }, error.message));
      this.drawing.querySelectorAll(".live").forEach((each) => each.remove());
    }
  }

  // The picture is taken in without its own style sheet, which the page's policy would refuse; style.css has the same classes.
  async draw() {
    const answer = await fetch(link("api/time/cell.svg", { run: this.panel.run.name }), { signal: this.panel.signal });
    const text = (await answer.text()).replace(/<style>[\s\S]*?<\/style>/, "");
    const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
    this.drawing = document.importNode(parsed, true);
    put(this.picture, this.drawing);
  }

  fill(row, unit) {
    const at = (vectors) => Object.fromEntries(Object.entries(vectors).map(([name, values]) => [name, values[unit]]));
    const [drives, before, products, gates, after] = [row.weighted_vector, row.state, row.weighted_state, row.gates, row.next_state].map(at);
    this.title.textContent = `The cell at work: unit ${unit}, step ${this.asked.step}`;
    const known = { gate: gates, operation: gates, state: before, next: after, drive: Object.fromEntries(Object.entries(drives).map(([name, value]) => [`x.${name}`, value])) };
    this.drawing.querySelectorAll(".live").forEach((each) => each.remove());
    for (const [kind, numbers] of Object.entries(known)) {
      for (const [name, value] of Object.entries(numbers)) {
        for (const group of this.drawing.querySelectorAll(`g.${kind}`)) {
          if (value !== undefined && plain(group.dataset.name).split(", ").includes(plain(name))) this.write(group, value, kind);
        }
      }
    }
    const line = (title, numbers) => Object.entries(numbers).map(([name, value]) => [title, h("code", {}, name), figures(value)]);
    put(this.rows, table(`What the equations add up for unit ${unit}`, ["", "name", { name: "value", number: true }], [
      ...line("input", Object.fromEntries(Object.entries(drives).map(([name, value]) => [`x.${name}`, value]))),
      ...line("state before", before), ...line("recurrent product", products), ...line("gate", gates), ...line("state after", after),
    ]), h("p", { class: "soft" }, `It reads ${JSON.stringify(row.input)}, predicts ${JSON.stringify(row.prediction)} (${(100 * row.probability).toFixed(0)} %); ${JSON.stringify(row.target)} came.`));
  }

  write(group, value, kind) {
    const box = group.querySelector("rect");
    const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => Number(box.getAttribute(name)));
    const below = kind === "drive" || kind === "operation";
    group.append(svg("text", { class: "live", x: x + width / 2, y: below ? y + height + 13 : y - 6, "text-anchor": "middle" }, figures(value, 3)));
  }
}
