// One unit: what is lost without it, where it is highest and lowest, and what it follows, beside controls.
import { post } from "../kit/api.js";
import { attempt, tell } from "../kit/banner.js";
import { button, figures, h, put, settle, table } from "../kit/dom.js";
import { visible } from "./time-text.js";

export class UnitCard {
  constructor(panel) {
    this.panel = panel;
    this.place = h("div", { class: "card" }, h("p", { class: "soft" }, "Looking at the unit …"));
    this.fetch = settle(() => this.load().catch(tell), 200);
    this.key = "";
  }

  show(asked) {
    const key = JSON.stringify(asked);
    if (key === this.key) return;
    Object.assign(this, { key, asked });
    this.fetch();
  }

  async load() {
    const { asked, key } = this;
    const found = await post("api/time/unit", asked, this.panel.signal);
    if (key !== this.key) return;
    const { ablation } = found;
    const worst = ablation.tokens.map((token, k) => [token, ablation.without[k] - ablation.intact[k], k]).sort((a, b) => b[1] - a[1]).slice(0, 5);
    const tracks = h("div", {}, button("What does it follow?", () => attempt(() => this.track(tracks)), { class: "small" }));
    put(this.place,
      h("h2", {}, `Unit ${asked.unit}`),
      h("p", {}, "With the unit held at its mean, the loss on this text changes by ", h("strong", {}, `${ablation.rise >= 0 ? "+" : ""}${figures(ablation.rise, 3)} nats per token`), "; it rises most at ", worst.filter(([, rise]) => rise > 0).flatMap(([token, rise]) => [h("code", {}, visible(token)), ` (+${figures(rise, 2)}) `])),
      tracks,
      h("h3", {}, "Highest"), contexts(found.highest, "high"),
      h("h3", {}, "Lowest"), contexts(found.lowest, "low"));
    if (this.studied) await this.track(tracks);
  }

  // The search among all units takes a while the first time; then it is known for every unit.
  async track(place) {
    put(place, h("p", { class: "soft", role: "status" }, "Searching among all units …"));
    try {
      const found = await post("api/time/tracks", this.asked, this.panel.signal);
      this.studied = true;
      const best = Object.entries(found.best).map(([label, unit]) => `${label}: ${unit}`).join("; ");
      put(place,
        table("Correlation on held-out text, beside what luck and the untrained network give", ["label", { name: "unit", number: true }, { name: "shifted labels", number: true }, { name: "untrained", number: true }, "follows"],
          found.rows.map((row) => [row.label, row.score.toFixed(2), row.shifted_labels.toFixed(2), row.untrained.toFixed(2), row.tracked ? "yes" : "no"])),
        h("p", { class: "soft" }, best ? `The best units: ${best}.` : found.summary));
    } catch (error) {
      put(place);
      throw error;
    }
  }
}

const flat = (text) => text.replaceAll("\n", "⏎");

function contexts(rows, kind) {
  return h("ol", { class: `contexts ${kind}` }, rows.map((row) => h("li", {},
    h("span", { class: "number" }, figures(row.value, 2)), " ",
    h("span", { class: "mono" }, flat(row.before), h("mark", { class: kind }, visible(row.token)), flat(row.after)))));
}
