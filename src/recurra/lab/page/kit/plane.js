// The state space on a canvas: field, basins, fixed points, trajectories; two axes, or three that turn.
import { css, line, onScheme, parse, sequential } from "./colours.js";
import { h } from "./dom.js";

const MARGIN = { left: 14, right: 14, top: 14, bottom: 30 };

// `drop(place)` is told of a click or Enter in two dimensions; `hover(number)` of the attractor or group under the pointer, or null.
export class PlaneView {
  constructor({ label, signal, drop = null, hover = () => {} }) {
    Object.assign(this, { label, drop, hover, data: null, deep: false, yaw: 0.6, pitch: 0.5, lit: null, cursor: null, trail: null, frame: 0 });
    this.canvas = h("canvas", { class: "plane", role: "application", tabindex: "0", "aria-label": label });
    this.place = h("div", { class: "plane-box" }, this.canvas);
    const observer = new ResizeObserver(() => this.draw());
    observer.observe(this.place);
    signal.addEventListener("abort", () => { observer.disconnect(); cancelAnimationFrame(this.frame); });
    onScheme(() => this.draw(), signal);
    this.listen();
  }

  listen() {
    let held = null;
    this.canvas.addEventListener("pointerdown", (event) => { held = [event.offsetX, event.offsetY, this.yaw, this.pitch]; });
    this.canvas.addEventListener("pointermove", (event) => {
      if (this.deep && held) {
        this.yaw = held[2] + (event.offsetX - held[0]) / 120;
        this.pitch = Math.max(-1.5, Math.min(1.5, held[3] + (event.offsetY - held[1]) / 120));
        this.draw();
      } else {
        this.look(event.offsetX, event.offsetY);
      }
    });
    this.canvas.addEventListener("pointerleave", () => { held = null; if (this.lit !== null) this.hover(null); });
    this.canvas.addEventListener("pointerup", (event) => {
      const still = held && Math.hypot(event.offsetX - held[0], event.offsetY - held[1]) < 4;
      held = null;
      if (still && !this.deep && this.drop && this.data) this.drop(this.unproject(event.offsetX, event.offsetY));
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!move && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    if (!this.data) return;
    if (this.deep) {
      this.yaw += 0.1 * (move?.[0] ?? 0);
      this.pitch = Math.max(-1.5, Math.min(1.5, this.pitch - 0.1 * (move?.[1] ?? 0)));
    } else {
      const { low, high } = this.data;
      this.cursor ??= [(low[0] + high[0]) / 2, (low[1] + high[1]) / 2];
      if (move) this.cursor = this.cursor.map((each, k) => Math.max(low[k], Math.min(high[k], each + move[k] * (high[k] - low[k]) / 40)));
      else if (this.drop) this.drop([...this.cursor]);
    }
    this.draw();
  }

  // {low, high, axes, size, moves, log_speed, basins: {size, labels}, points, paths, groups: {places, numbers}, curve}
  set(data) {
    this.data = data;
    this.draw();
  }

  light(number) {
    if (this.lit === number) return;
    this.lit = number;
    this.draw();
  }

  // A trajectory that is drawn step by step, at the pace of a clock; at once where motion is not wanted.
  follow(path) {
    cancelAnimationFrame(this.frame);
    this.trail = { path, shown: matchMedia("(prefers-reduced-motion: reduce)").matches ? path.length : 1 };
    const began = performance.now();
    const tick = (now) => {
      this.trail.shown = Math.min(path.length, 1 + Math.floor((now - began) / 40));
      this.draw();
      if (this.trail.shown < path.length) this.frame = requestAnimationFrame(tick);
    };
    if (this.trail.shown < path.length) this.frame = requestAnimationFrame(tick);
    this.draw();
  }

  size() {
    const width = Math.max(200, Math.min(this.place.clientWidth, 720));
    return [width, Math.round(width * 0.86)];
  }

  bounds() {
    const [width, height] = this.size();
    return { x: MARGIN.left, y: MARGIN.top, w: width - MARGIN.left - MARGIN.right, h: height - MARGIN.top - MARGIN.bottom };
  }

  project(at) {
    const box = this.bounds();
    if (this.deep) {
      const scale = Math.min(box.w, box.h) / 2.3 / (this.radius || 1);
      const [a, b, c] = [0, 1, 2].map((k) => (at[k] ?? 0) - this.middle[k]);
      const [x, z] = [a * Math.cos(this.yaw) - c * Math.sin(this.yaw), a * Math.sin(this.yaw) + c * Math.cos(this.yaw)];
      return [box.x + box.w / 2 + scale * x, box.y + box.h / 2 - scale * (b * Math.cos(this.pitch) - z * Math.sin(this.pitch))];
    }
    const { low, high } = this.data;
    return [box.x + box.w * (at[0] - low[0]) / (high[0] - low[0]), box.y + box.h * (high[1] - at[1]) / (high[1] - low[1])];
  }

  unproject(x, y) {
    const box = this.bounds();
    const { low, high } = this.data;
    return [low[0] + (high[0] - low[0]) * (x - box.x) / box.w, high[1] - (high[1] - low[1]) * (y - box.y) / box.h];
  }

  measure() {
    const all = [...(this.data.paths ?? []).flat(), ...(this.data.points ?? []).map((each) => each.place), ...(this.data.groups?.places ?? [])];
    if (!all.length) all.push([0, 0, 0], [1, 1, 1]);
    const ends = [0, 1, 2].map((k) => [Math.min(...all.map((at) => at[k] ?? 0)), Math.max(...all.map((at) => at[k] ?? 0))]);
    this.middle = ends.map(([low, high]) => (low + high) / 2);
    this.radius = Math.max(...ends.map(([low, high]) => (high - low) / 2)) * 1.2 || 1;
  }

  look(x, y) {
    if (!this.data) return;
    let best = [14, null];
    const see = (place, number) => {
      if (number === null || number === undefined) return;
      const [a, b] = this.project(place);
      const far = Math.hypot(a - x, b - y);
      if (far < best[0]) best = [far, number];
    };
    if (this.data.groups) this.data.groups.places.forEach((place, k) => see(place, this.data.groups.numbers[k]));
    if (best[1] !== this.lit) this.hover(best[1]);
  }

  draw() {
    if (!this.data || !this.place.isConnected) return;
    const [width, height] = this.size();
    const ratio = devicePixelRatio || 1;
    Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const to = this.canvas.getContext("2d");
    to.scale(ratio, ratio);
    to.fillStyle = css("--ground");
    to.fillRect(0, 0, width, height);
    this.measure();
    const box = this.bounds();
    to.save();
    to.beginPath();
    to.rect(box.x, box.y, box.w, box.h);
    to.clip();
    if (!this.deep) {
      if (this.data.basins?.size) this.drawBasins(to, box);
      else if (this.data.log_speed) this.drawSpeed(to, box);
      if (this.data.moves) this.drawField(to);
      if (this.data.curve) this.drawCurve(to);
    }
    if (this.deep) this.drawAxes(to);
    for (const path of this.data.paths ?? []) this.drawPath(to, path, css("--soft"), 1, 0.5);
    if (this.data.groups) this.drawGroups(to);
    for (const point of this.data.points ?? []) this.drawPoint(to, point);
    if (this.trail) this.drawTrail(to);
    if (this.cursor && !this.deep && document.activeElement === this.canvas) this.drawCursor(to);
    to.restore();
    this.drawFrame(to, box);
  }

  drawFrame(to, box) {
    to.strokeStyle = css("--edge");
    to.lineWidth = 1;
    if (!this.deep) to.strokeRect(box.x + 0.5, box.y + 0.5, box.w - 1, box.h - 1);
    to.fillStyle = css("--soft");
    to.font = "12px system-ui, sans-serif";
    const [first, second] = this.data.axes;
    const [low, high] = [this.data.low, this.data.high];
    if (this.deep) { to.fillText(this.data.axes.join(" · "), box.x, box.y + box.h + 18, box.w); return; }
    to.fillText(`→ ${first}: ${low[0].toPrecision(2)} to ${high[0].toPrecision(2)}`, box.x, box.y + box.h + 18, box.w / 2 - 8);
    to.textAlign = "right";
    to.fillText(`↑ ${second}: ${low[1].toPrecision(2)} to ${high[1].toPrecision(2)}`, box.x + box.w, box.y + box.h + 18, box.w / 2 - 8);
    to.textAlign = "left";
  }

  // Three lines through the middle, numbered at their ends.
  drawAxes(to) {
    [0, 1, 2].forEach((k) => {
      const end = (sign) => this.middle.map((each, at) => each + (at === k ? sign * this.radius * 0.85 : 0));
      this.drawPath(to, [end(-1), end(1)], css("--edge"), 1, 0.6);
      const [x, y] = this.project(end(1));
      to.fillStyle = css("--soft");
      to.font = "12px system-ui, sans-serif";
      to.fillText(String(k + 1), x + 4, y + 4);
    });
  }

  image(to, box, size, colour, alpha) {
    const made = document.createElement("canvas");
    Object.assign(made, { width: size, height: size });
    const pixels = made.getContext("2d").createImageData(size, size);
    for (let k = 0; k < size * size; k++) {
      const [row, column] = [size - 1 - Math.floor(k / size), k % size];
      pixels.data.set([...colour(k), alpha], 4 * (row * size + column));
    }
    made.getContext("2d").putImageData(pixels, 0, 0);
    to.imageSmoothingEnabled = !this.data.basins?.size;
    to.drawImage(made, box.x, box.y, box.w, box.h);
  }

  drawBasins(to, box) {
    const { size, labels } = this.data.basins;
    const ground = parse(css("--ground"));
    const colours = Array.from({ length: 8 }, (_, k) => parse(line(k)));
    const lit = this.lit;
    this.image(to, box, size, (k) => (labels[k] < 0 ? ground : colours[labels[k] % 8]), lit === null ? 70 : 60);
  }

  drawSpeed(to, box) {
    const speed = this.data.log_speed;
    const [low, high] = [Math.min(...speed), Math.max(...speed)];
    const table = sequential();
    this.image(to, box, this.data.size, (k) => table[Math.round(150 * (high - speed[k]) / (high - low || 1))], 255);
  }

  drawField(to) {
    const { size, moves, low, high } = this.data;
    const cell = Math.min(...[0, 1].map((k) => (high[k] - low[k]) / (size - 1)));
    to.strokeStyle = css("--ink");
    to.globalAlpha = 0.55;
    to.lineWidth = 1.1;
    for (let k = 0; k < size * size; k++) {
      const at = [low[0] + (high[0] - low[0]) * (k % size) / (size - 1), low[1] + (high[1] - low[1]) * Math.floor(k / size) / (size - 1)];
      const length = Math.hypot(...moves[k]);
      if (!(length > 1e-9)) continue;
      const share = 0.8 * cell / length * Math.min(1, 0.35 + length / (2 * cell));
      this.arrow(to, this.project(at), this.project([at[0] + share * moves[k][0], at[1] + share * moves[k][1]]), 3.5);
    }
    to.globalAlpha = 1;
  }

  arrow(to, [x0, y0], [x1, y1], head) {
    const angle = Math.atan2(y1 - y0, x1 - x0);
    to.beginPath();
    to.moveTo(x0, y0);
    to.lineTo(x1, y1);
    for (const turn of [2.6, -2.6]) { to.moveTo(x1, y1); to.lineTo(x1 + head * Math.cos(angle + turn), y1 + head * Math.sin(angle + turn)); }
    to.stroke();
  }

  drawCurve(to) {
    const { low, high } = this.data;
    this.drawPath(to, [low, high], css("--soft"), 1, 0.8);
    this.drawPath(to, this.data.curve, css("--line-0"), 2.5, 1);
  }

  drawPath(to, path, colour, width, alpha) {
    to.strokeStyle = colour;
    to.lineWidth = width;
    to.globalAlpha = alpha;
    to.beginPath();
    path.forEach((at, k) => { const [x, y] = this.project(at); if (k) to.lineTo(x, y); else to.moveTo(x, y); });
    to.stroke();
    to.globalAlpha = 1;
  }

  drawTrail(to) {
    const { path, shown } = this.trail;
    const part = path.slice(0, shown);
    this.drawPath(to, part, css("--line-1"), 2.5, 1);
    to.fillStyle = css("--line-1");
    part.forEach((at, k) => { const [x, y] = this.project(at); to.beginPath(); to.arc(x, y, k === part.length - 1 ? 6 : 2.2, 0, 7); to.fill(); });
  }

  drawGroups(to) {
    const { places, numbers } = this.data.groups;
    places.forEach((place, k) => {
      const [x, y] = this.project(place);
      const on = this.lit === null || this.lit === numbers[k];
      to.fillStyle = line(numbers[k]);
      to.globalAlpha = on ? 0.9 : 0.12;
      to.beginPath();
      to.arc(x, y, this.lit === numbers[k] ? 7 : 4, 0, 7);
      to.fill();
    });
    to.globalAlpha = 1;
  }

  drawPoint(to, point) {
    const [x, y] = this.project(point.place);
    const kind = point.kind.split(" ")[0].replace(",", "");
    const colour = point.attractor === null || point.attractor === undefined ? css("--ink") : line(point.attractor);
    to.strokeStyle = to.fillStyle = colour;
    to.lineWidth = 2;
    to.beginPath();
    if (kind === "attractor") { to.arc(x, y, 6, 0, 7); to.fill(); to.strokeStyle = css("--ground"); to.lineWidth = 1.5; to.stroke(); }
    else if (kind === "repeller") { to.arc(x, y, 5.5, 0, 7); to.stroke(); }
    else if (kind === "saddle") { to.moveTo(x - 5, y - 5); to.lineTo(x + 5, y + 5); to.moveTo(x + 5, y - 5); to.lineTo(x - 5, y + 5); to.stroke(); }
    else { to.rect(x - 4.5, y - 4.5, 9, 9); to.stroke(); }
    if (point.label) { to.fillStyle = css("--ink"); to.font = "12px system-ui, sans-serif"; to.fillText(point.label, x + 9, y - 7); }
  }

  drawCursor(to) {
    const [x, y] = this.project(this.cursor);
    to.strokeStyle = css("--accent");
    to.lineWidth = 2;
    to.beginPath();
    to.moveTo(x - 9, y); to.lineTo(x + 9, y); to.moveTo(x, y - 9); to.lineTo(x, y + 9);
    to.stroke();
  }
}

export const LEGEND = "● attractor   ✕ saddle   ○ repeller   □ marginal. Arrows: one step. Shade: blue where it lingers.";
