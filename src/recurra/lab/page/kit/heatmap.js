// A matrix as a heat map that scrolls: one pixel for each number is painted once, and only what is seen is drawn, enlarged.
import { css, diverging, onScheme } from "./colours.js";
import { h } from "./dom.js";

const LEFT = 44, TOP = 22;

export class HeatMap {
  // `rows`, `columns`: how many; `values`: Float32Array, row after row; `scale`: the largest size of a number.
  // `columnText(k)`, `rowText(k)`: what stands beside them. `onPick(row, column)`, `onHover(row, column)`.
  constructor({ label, signal, cell = 14, height = 420, columnText = String, rowText = String, onPick = () => {}, onHover = () => {} }) {
    Object.assign(this, { cell, height, columnText, rowText, onPick, onHover, rows: 0, columns: 0, values: null, cursor: null, mark: null });
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.space = h("div", { class: "heat-space" });
    this.place = h("div", {
      class: "heat", tabindex: "0", role: "application", "aria-roledescription": "heat map", "aria-label": label,
      on: { scroll: () => this.request(), pointermove: (event) => this.hover(event), click: (event) => this.pick(event), keydown: (event) => this.key(event), pointerleave: () => { this.mark = null; this.request(); } },
    }, this.canvas, this.space);
    this.place.style.height = `${height}px`;
    this.image = document.createElement("canvas");
    this.frames = 0;
    new ResizeObserver(() => this.request()).observe(this.place);
    onScheme(() => { this.paint(); this.request(); }, signal);
  }

  set(values, rows, columns, scale = null) {
    Object.assign(this, { values, rows, columns });
    this.scale = scale ?? Math.max(1e-9, values.reduce((most, value) => Math.max(most, Math.abs(value)), 0));
    this.cursor = this.cursor && this.cursor.row < rows && this.cursor.column < columns ? this.cursor : null;
    this.paint();
    this.resize();
  }

  resize() {
    this.space.style.width = `${LEFT + this.columns * this.cell}px`;
    this.space.style.height = `${TOP + this.rows * this.cell}px`;
    const wanted = TOP + this.rows * this.cell + 2;
    this.place.style.height = `${Math.min(this.height, wanted + 14)}px`;
    this.request();
  }

  paint() {
    if (!this.values) return;
    const { rows, columns, values, scale } = this;
    Object.assign(this.image, { width: columns, height: rows });
    const context = this.image.getContext("2d");
    const data = context.createImageData(columns, rows);
    const packed = new Uint32Array(data.data.buffer);
    const palette = Uint32Array.from(diverging(), ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r);
    const steps = 255 / scale;
    for (let k = 0; k < packed.length; k++) packed[k] = palette[Math.max(0, Math.min(510, Math.round(255 + values[k] * steps)))];
    context.putImageData(data, 0, 0);
  }

  request() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.draw(); });
  }

  draw() {
    const { clientWidth: width, clientHeight: height, scrollLeft, scrollTop } = this.place;
    if (!width || !this.values) return;
    const ratio = devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      Object.assign(this.canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = css("--ground");
    context.fillRect(0, 0, width, height);
    context.imageSmoothingEnabled = false;
    const across = Math.min(width - LEFT, this.columns * this.cell - scrollLeft);
    const down = Math.min(height - TOP, this.rows * this.cell - scrollTop);
    context.drawImage(this.image, scrollLeft / this.cell, scrollTop / this.cell, across / this.cell, down / this.cell, LEFT, TOP, across, down);
    this.drawAxes(context, width, height, scrollLeft, scrollTop);
    this.frames += 1;
  }

  drawAxes(context, width, height, left, top) {
    const { cell } = this;
    context.font = `${Math.min(12, cell)}px ui-monospace, monospace`;
    context.fillStyle = css("--soft");
    context.textBaseline = "middle";
    context.textAlign = "center";
    const every = Math.max(1, Math.ceil(10 / cell));
    for (let k = Math.ceil(left / cell / every) * every; k < this.columns; k += every) {
      const x = LEFT + k * cell - left + cell / 2;
      if (x > width) break;
      context.fillText(this.columnText(k), x, TOP / 2);
    }
    context.textAlign = "right";
    const each = Math.max(1, Math.ceil(13 / cell));
    for (let k = Math.ceil(top / cell / each) * each; k < this.rows; k += each) {
      const y = TOP + k * cell - top + cell / 2;
      if (y > height) break;
      context.fillText(this.rowText(k), LEFT - 6, y);
    }
    const frame = (at, colour, thick) => {
      context.strokeStyle = colour;
      context.lineWidth = thick;
      context.strokeRect(LEFT + at.column * cell - left, TOP + at.row * cell - top, cell, cell);
    };
    context.save();
    context.beginPath();
    context.rect(LEFT - 1, TOP - 1, width, height);
    context.clip();
    if (this.cursor) {
      context.fillStyle = css("--cursor");
      context.fillRect(LEFT + this.cursor.column * cell - left, TOP, cell, this.rows * cell - top);
      context.fillRect(LEFT, TOP + this.cursor.row * cell - top, this.columns * cell - left, cell);
      frame(this.cursor, css("--ink"), 2);
    }
    if (this.mark) frame(this.mark, css("--ink"), 1);
    context.restore();
  }

  at(event) {
    const box = this.place.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - LEFT + this.place.scrollLeft) / this.cell);
    const row = Math.floor((event.clientY - box.top - TOP + this.place.scrollTop) / this.cell);
    return row >= 0 && row < this.rows && column >= 0 && column < this.columns ? { row, column } : null;
  }

  hover(event) {
    this.mark = this.at(event);
    if (this.mark) this.onHover(this.mark.row, this.mark.column, this.values[this.mark.row * this.columns + this.mark.column]);
    this.request();
  }

  pick(event) {
    const at = this.at(event);
    if (at) this.move(at.row, at.column);
  }

  key(event) {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [];
    if (down === undefined || !this.values) return;
    event.preventDefault();
    event.stopPropagation();
    const { row, column } = this.cursor ?? { row: 0, column: 0 };
    this.move(Math.max(0, Math.min(this.rows - 1, row + down)), Math.max(0, Math.min(this.columns - 1, column + right)));
  }

  move(row, column, tell = true) {
    this.cursor = { row, column };
    this.reveal();
    this.request();
    if (tell) this.onPick(row, column);
  }

  reveal() {
    const { row, column } = this.cursor;
    const { clientWidth, clientHeight } = this.place;
    const x = column * this.cell, y = row * this.cell;
    if (x < this.place.scrollLeft) this.place.scrollLeft = x;
    if (x + this.cell > this.place.scrollLeft + clientWidth - LEFT) this.place.scrollLeft = x + this.cell - clientWidth + LEFT;
    if (y < this.place.scrollTop) this.place.scrollTop = y;
    if (y + this.cell > this.place.scrollTop + clientHeight - TOP) this.place.scrollTop = y + this.cell - clientHeight + TOP;
  }

  // The whole matrix as a picture, not only what is seen.
  async asPng(cell = 4) {
    const whole = document.createElement("canvas");
    Object.assign(whole, { width: this.columns * cell, height: this.rows * cell });
    const context = whole.getContext("2d");
    context.imageSmoothingEnabled = false;
    context.drawImage(this.image, 0, 0, whole.width, whole.height);
    return new Promise((resolve) => { whole.toBlob(resolve, "image/png"); });
  }
}
