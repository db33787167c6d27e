// The form that starts a run: made from the settings that a recipe declares.
import { get, post } from "../kit/api.js";
import { attempt } from "../kit/banner.js";
import { button, field, h, put } from "../kit/dom.js";

const SHOWN = ["data.path", "data.task", "model.cell", "model.hidden_size", "model.layers", "training.steps", "training.batch_size", "training.learning_rate", "seed"];

const written = (value) => (value === null ? "none" : Array.isArray(value) ? value.join(",") : String(value));

const HUGE = 1e9; // a bound that only keeps a number within 64 bits tells nobody anything

function range({ low, above, high, below }) {
  const told = (word, value) => (value === null || value === undefined || Math.abs(value) > HUGE ? "" : `${word} ${value}`);
  return [told("at least", low) || told("above", above), told("at most", high) || told("below", below)].filter(Boolean).join(", ");
}

// One setting as a field; `change` hears its value as text, or null where it is the default.
function settingField(each, change) {
  const initial = written(each.value);
  const tell = (value) => change(each.key, value === initial ? null : value);
  const hint = [each.about, range(each.bounds)].filter(Boolean).join("; ");
  const options = each.kind === "bool" && !each.several ? ["true", "false"] : each.choices;
  let input;
  if (options && !each.several) {
    input = h("select", { on: { change: () => tell(input.value) } }, (each.optional ? ["none", ...options] : options).map((value) => h("option", { value, selected: value === initial }, value)));
  } else {
    input = h("input", { type: "text", value: initial, inputmode: each.kind === "int" ? "numeric" : each.kind === "float" ? "decimal" : "text", spellcheck: "false", autocomplete: "off", on: { input: () => tell(input.value.trim()) } });
  }
  return field(each.key, input, hint);
}

export function startForm(onStart) {
  const fields = h("div");
  const name = h("input", { type: "text", maxlength: "80", placeholder: "chosen for you", autocomplete: "off" });
  const about = h("p", { class: "soft" });
  const recipe = h("select", { on: { change: () => attempt(load) } });
  let given = {};

  async function load() {
    const wanted = recipe.value;
    given = {};
    put(fields, h("p", { class: "soft" }, "…"));      // the fields of another recipe must not be filled in meanwhile
    const found = await get("api/runs/recipe", { name: wanted });
    if (recipe.value !== wanted) return;
    const change = (key, value) => { if (value === null) delete given[key]; else given[key] = value; };
    const first = found.settings.filter((each) => SHOWN.includes(each.key));
    const rest = found.settings.filter((each) => !SHOWN.includes(each.key));
    about.textContent = found.about;
    put(fields, h("div", { class: "form" }, first.map((each) => settingField(each, change))),
      h("details", {}, h("summary", {}, `${rest.length} more settings`), h("div", { class: "form" }, rest.map((each) => settingField(each, change)))));
  }

  async function open() {
    if (recipe.options.length) return;
    const recipes = await get("api/runs/recipes");
    put(recipe, Object.keys(recipes).map((each) => h("option", { value: each }, each)));
    await load();
  }

  const begin = async (event) => {
    event.preventDefault();
    await attempt(async () => {
      const { run } = await post("api/runs/start", { recipe: recipe.value, settings: given, name: name.value.trim() });
      made.open = false;
      onStart(run);
    });
  };

  const made = h("details", { class: "card start", on: { toggle: () => { if (made.open) attempt(open); } } }, h("summary", {}, "Start a run"),
    h("form", { on: { submit: begin } },
      h("div", { class: "row" }, field("Recipe", recipe), field("Name of the run", name)), about, fields,
      h("div", { class: "row" }, h("button", { type: "submit", class: "main" }, "Train"), h("span", { class: "soft" }, "It trains in a process of its own, and goes on when this page or the lab is closed."))));
  return made;
}
