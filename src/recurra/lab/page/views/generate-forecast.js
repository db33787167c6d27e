// Forecasts: what was known, how it goes on, and the interval.
import { blob, post } from "../kit/api.js";
import { attempt } from "../kit/banner.js";
import { css } from "../kit/colours.js";
import { Curves } from "../kit/curves.js";
import { field, h, put } from "../kit/dom.js";
import { outputs } from "../kit/outputs.js";

const MOST = 6;

export function forecaster(panel) {
  const steps = h("input", { type: "number", min: 1, max: 2000, value: panel.get("steps", 100) });
  const place = h("div");
  let found = null, turn = 0;
  const asked = () => ({ run: panel.run.name, steps: Number(steps.value) });

  // One plot for each column. The lines of the bounds are thin; the band between them is filled.
  function plot(k) {
    const known = found.known.map((row) => row[k]);
    const past = known.map((_, at) => at + 1 - known.length);
    const ahead = found.values.map((_, at) => at + 1);
    const column = (rows) => rows.map((row) => row[k]);
    const lines = [
      { label: "known", x: past, y: known, k: 0 },
      { label: "forecast", x: [0, ...ahead], y: [known.at(-1), ...column(found.values)], k: 1, dash: [8, 4] },
    ];
    if (found.low) {
      const share = `${Math.round(100 * found.interval)} %`;
      lines.push({ label: `upper bound of ${share}`, x: ahead, y: column(found.high), k: 1, width: 0.8 }, { label: `lower bound of ${share}`, x: ahead, y: column(found.low), k: 1, width: 0.8 });
    }
    const bands = found.low ? [{ series: [3, 4], fill: `${css("--line-1")}33` }] : [];
    const made = new Curves({ label: `${found.columns[k]}: known and forecast`, signal: panel.signal, height: 260, x: "steps from the last known value", bands });
    requestAnimationFrame(() => made.set(lines));
    return [h("h3", {}, found.columns[k]), made.place];
  }

  const run = () => attempt(async () => {
    const mine = ++turn;
    const answer = await post("api/generate/forecast", asked(), panel.signal);
    if (mine !== turn) return; // another was asked for meanwhile
    found = answer;
    put(place, found.columns.slice(0, MOST).map((_, k) => plot(k)),
      found.columns.length > MOST ? h("p", { class: "soft" }, `${found.columns.length - MOST} more columns are in the numbers.`) : null);
  });
  panel.onAddress(() => { steps.value = panel.get("steps", 100); run(); });
  run();
  return h("div", { class: "card" }, h("h2", {}, "Forecast"),
    h("form", { on: { submit: (event) => { event.preventDefault(); panel.set({ steps: steps.value }); } } }, h("div", { class: "row" }, field("Steps ahead", steps), h("button", { type: "submit", class: "main" }, "Forecast"))),
    place,
    outputs({ name: `${panel.run.name}-forecast`, picture: { svg: () => blob("api/generate/forecast.svg", asked()) }, numbers: { json: () => ({ ...found, csv: undefined, python: undefined }), csv: () => found.csv }, python: () => found.python }));
}
