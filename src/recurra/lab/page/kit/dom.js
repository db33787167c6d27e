// Elements. Text is always a text node: nothing that comes from a run is ever read as markup.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") Object.entries(value).forEach(([event, listener]) => element.addEventListener(event, listener));
    else if (name === "style") Object.entries(value).forEach(([key, each]) => element.style.setProperty(key, each));
    else if (name === "value" || name === "checked" || name === "selected" || name === "disabled") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (tag, props = {}, ...children) => fill(document.createElement(tag), props, children);
export const svg = (tag, props = {}, ...children) => fill(document.createElementNS(SVG, tag), props, children);
export const put = (place, ...children) => { place.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)); return place; };

export const button = (text, press, props = {}) => h("button", { type: "button", ...props, on: { click: press } }, text);

export function field(label, input, hint = "") {
  return h("label", { class: "field" }, label, input, hint ? h("span", { class: "hint" }, hint) : null);
}

export function choice(label, options, chosen, change) {
  const select = h("select", { on: { change: () => change(select.value) } },
    options.map((each) => {
      const [value, text] = Array.isArray(each) ? each : [each, each];
      return h("option", { value, selected: String(value) === String(chosen) }, text);
    }));
  return field(label, select);
}

// A table: columns are names, or {name, number: true}; cells are text or elements.
export function table(caption, columns, rows) {
  const heads = columns.map((each) => (typeof each === "string" ? { name: each } : each));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption),
      h("thead", {}, h("tr", {}, heads.map((each) => h("th", { scope: "col", class: each.number ? "number" : null }, each.name)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, k) => h("td", { class: heads[k].number ? "number" : null }, cell)))))));
}

export function figures(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return Number.isInteger(value) ? value.toLocaleString("en") : Number(value).toPrecision(digits).replace(/\.?0+($|e)/, "$1");
}

// Runs the last call only, once calls have paused.
export function settle(run, milliseconds = 250) {
  let timer = 0;
  return (...args) => { clearTimeout(timer); timer = setTimeout(() => run(...args), milliseconds); };
}

// Runs at once, and then not again before so many milliseconds; what is asked for meanwhile runs once at their end.
export function pace(run, milliseconds) {
  let last = -Infinity;
  let timer = 0;
  return () => {
    clearTimeout(timer);
    const go = () => { last = performance.now(); run(); };
    timer = setTimeout(go, Math.max(0, last + milliseconds - performance.now()));
  };
}
