// The shell: which view the address names, its panels, and the choice of runs.
import { get } from "./kit/api.js";
import * as address from "./kit/address.js";
import { clear, tell } from "./kit/banner.js";
import { h, put } from "./kit/dom.js";
import { forget } from "./kit/keys.js";
import { VIEWS } from "./views.js";

const main = document.getElementById("main");
const nav = document.getElementById("views");
let open = { key: "", panels: [], stop: new AbortController() };
let count = 0;

function drawNav(name) {
  put(nav, VIEWS.map((view) => h("a", {
    href: address.link(view.name, address.keep(["run"])),
    "aria-current": view.name === name ? "page" : null,
  }, view.title)));
}

// A panel is what a view fills: the place, the run that it shows (of a view of runs), and a signal that ends it.
function makePanel(place, run, number, stop) {
  return {
    place, run, number, signal: stop.signal, listeners: [],
    get: address.get,
    set: address.set,
    onAddress(listener) { this.listeners.push(listener); },
  };
}

function picker(label, runs, chosen, none, change) {
  const options = runs.map((run) => h("option", { value: run.name, selected: run.name === chosen }, `${run.name} · ${run.recipe}`));
  if (none) options.unshift(h("option", { value: "", selected: !chosen }, none));
  return h("label", { class: "field" }, label, h("select", { on: { change: (event) => change(event.target.value) } }, options));
}

function runBar(view, runs, chosen) {
  const [first, second] = chosen;
  const choose = (names) => address.go(view.name, { ...address.keep(null), run: names.filter(Boolean) });
  const others = runs.filter((run) => run.name !== first);
  return h("div", { class: "bar", "aria-label": "Runs that are shown", role: "group" },
    picker("Run", runs, first, null, (name) => choose([name, second === name ? null : second])),
    picker("Compare with", others, second, "nothing", (name) => choose([first, name])));
}

async function render() {
  const asked = address.read();
  const view = VIEWS.find((each) => each.name === asked.view) ?? VIEWS[0];
  const key = JSON.stringify([view.name, view.of === "run" ? asked.params.getAll("run") : []]);
  drawNav(view.name);
  if (key === open.key) {
    open.panels.forEach((panel) => panel.listeners.forEach((listener) => listener()));
    return;
  }
  const turn = ++count;
  open.stop.abort();
  forget();
  clear();
  const stop = new AbortController();
  open = { key, panels: [], stop };
  document.title = `${view.title} · Recurra lab`;
  try {
    const module = await view.load();
    if (view.of === "folder") {
      const place = h("div", { class: "panel" });
      put(main, heading(view), place);
      open.panels = [makePanel(place, null, 0, stop)];
    } else {
      const listed = await get("api/runs/list", {}, stop.signal);
      if (turn !== count) return;
      if (!listed.runs.length) {
        put(main, heading(view), h("p", {}, "There is no run in this folder yet. ", h("a", { href: "#/runs" }, "Start one.")));
        return;
      }
      const known = new Map(listed.runs.map((run) => [run.name, run]));
      let chosen = asked.params.getAll("run").filter((name) => known.has(name)).slice(0, 2);
      if (!chosen.length) chosen = [listed.selected && known.has(listed.selected) ? listed.selected : listed.runs[0].name];
      const places = chosen.map((name) => h("section", { class: "panel", "aria-label": name }));
      put(main, heading(view), runBar(view, listed.runs, chosen), h("div", { class: chosen.length > 1 ? "side" : "alone" }, places));
      open.panels = chosen.map((name, k) => makePanel(places[k], known.get(name), k, stop));
      if (chosen.length > 1) places.forEach((place, k) => place.append(h("h2", { class: "run-name" }, chosen[k])));
      open.panels.forEach((panel, k) => { panel.place = h("div"); places[k].append(panel.place); });
    }
    await Promise.all(open.panels.map((panel) => module.show(panel)));
  } catch (error) {
    if (turn === count) tell(error);
  }
}

function heading(view) {
  return h("h1", {}, view.title);
}

document.getElementById("skip").addEventListener("click", () => main.focus());
address.onChange(render);
render();
