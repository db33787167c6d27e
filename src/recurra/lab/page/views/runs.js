// Runs: all of a folder.
import { get } from "../kit/api.js";
import { link } from "../kit/address.js";
import { figures, h, put, table } from "../kit/dom.js";

export async function show(panel) {
  const listed = await get("api/runs/list", {}, panel.signal);
  const rows = listed.runs.map((run) => [h("a", { href: link("runs", { run: run.name }) }, run.name), run.recipe, figures(run.step), figures(run.best_valid)]);
  put(panel.place, table("Runs of the folder", ["run", "recipe", { name: "step", number: true }, { name: "best validation", number: true }], rows));
}
