// Curves over steps with uPlot: several runs in one plot, each line with a colour and a dash of its own.
import uPlot from "../vendor/uplot/uPlot.esm.js";
import { css, line, onScheme } from "./colours.js";
import { h, put } from "./dom.js";

const DASHES = [[], [8, 4], [2, 4], [10, 4, 2, 4]];

// `lines`: [{label, x: [...], y: [...], k}], `k` its colour; `log`: the scale of y.
export class Curves {
  constructor({ label, signal, height = 320, log = false, x = "step", bands = [] }) {
    Object.assign(this, { label, height, log, x, bands, lines: [], plot: null });
    this.place = h("div", { class: "curves", role: "img", "aria-label": label });
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.place);
    signal.addEventListener("abort", () => { this.observer.disconnect(); this.plot?.destroy(); });
    onScheme(() => this.build(), signal);
  }

  data() {
    if (!this.lines.length) return [[], []];
    return uPlot.join(this.lines.map((each) => [each.x, each.y]));
  }

  set(lines, { log = this.log } = {}) {
    const same = this.plot && log === this.log && lines.length === this.lines.length
      && lines.every((each, k) => each.label === this.lines[k].label && each.k === this.lines[k].k);
    Object.assign(this, { lines, log });
    if (same) this.plot.setData(this.data());
    else this.build();
  }

  build() {
    this.plot?.destroy();
    this.plot = null;
    put(this.place);
    if (!this.lines.length || !this.place.isConnected) return;
    const axis = { stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line"), width: 1 }, font: "12px system-ui" };
    this.plot = new uPlot({
      width: this.place.clientWidth, height: this.height,
      scales: { x: { time: false }, y: { distr: this.log ? 3 : 1 } },
      axes: [{ ...axis, label: this.x, labelFont: "12px system-ui", labelSize: 16, size: 34 }, { ...axis, size: 56 }],
      bands: this.bands,
      series: [{ label: this.x }, ...this.lines.map((each, at) => ({
        label: each.label, stroke: each.colour ?? line(each.k ?? at), width: each.width ?? 1.8, spanGaps: true,
        dash: each.dash ?? DASHES[Math.floor((each.k ?? at) / 8) % DASHES.length], points: { show: each.points ?? false },
      }))],
      cursor: { focus: { prox: 24 }, drag: { x: true, y: false } },
      legend: { live: true },
    }, this.data(), this.place);
  }

  fit() {
    if (!this.plot && this.lines.length) this.build();
    else if (this.plot && this.place.clientWidth !== this.plot.width) this.plot.setSize({ width: this.place.clientWidth, height: this.height });
  }

  asPng() {
    const source = this.plot.ctx.canvas;
    const made = document.createElement("canvas");
    Object.assign(made, { width: source.width, height: source.height });
    const context = made.getContext("2d");
    context.fillStyle = css("--ground");
    context.fillRect(0, 0, made.width, made.height);
    context.drawImage(source, 0, 0);
    return new Promise((resolve) => { made.toBlob(resolve, "image/png"); });
  }
}
