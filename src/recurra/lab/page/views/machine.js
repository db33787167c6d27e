// The washing machine with its buttons: the eight variables, what the network predicts; and the robot at work.
import { post } from "../kit/api.js";
import { attempt } from "../kit/banner.js";
import { button, choice, h, put, table } from "../kit/dom.js";
import { outputs, toCsv } from "../kit/outputs.js";

// `asked`: the checkpoint and the axes as they are now; `follow(path)` is told of the way of the hidden state.
export function showMachine(panel, place, asked, follow) {
  const run = panel.run.name;
  let pressed = [];
  let work = null;
  const buttons = h("div", { class: "buttons", role: "group", "aria-label": "Buttons" });
  const internal = h("div", { class: "buttons", role: "group", "aria-label": "The machine's own triggers" });
  const lamps = h("dl", { class: "lamps" });
  const rows = h("div");
  const said = h("p", { role: "status", class: "verdict machine-said" });
  const told = h("p", { role: "status", class: "verdict robot-said" });
  const log = h("div");
  let programs = "all";

  const refresh = () => attempt(async () => {
    const found = await post("api/space/press", { run, step: asked.step, units: asked.units, triggers: pressed.slice(-400) }, panel.signal);
    const press = (name) => button(name, () => { pressed.push(name); refresh(); }, { class: found.valid.includes(name) ? "does" : "idle", title: found.valid.includes(name) ? "does something now" : "does nothing now" });
    put(buttons, found.buttons.map(press));
    put(internal, found.internal.map(press), button("nothing happens", () => { pressed.push("none"); refresh(); }, { class: "quiet" }));
    put(lamps, Object.entries(found.variables).map(([name, value]) => h("div", { class: value ? "lamp on" : "lamp" }, h("dt", {}, name), h("dd", {}, String(value)))));
    const last = found.rows[found.rows.length - 1];
    said.textContent = `The machine is ${last.state}; the network predicts ${last.predicted}. Wrong so far: ${found.wrong} of ${pressed.length + 1}.`;
    put(rows, table("The last moments", ["trigger", "state", "predicted"], [...found.rows].reverse().slice(0, 8).map((row) => [row.does_something ? row.trigger : `${row.trigger} (noise)`, row.state, row.state === row.predicted ? row.predicted : h("b", { class: "wrong" }, row.predicted)])));
    follow(found.path);
  });

  const operate = () => attempt(async () => {
    const wanted = programs === "all" ? [1, 2, 3, 4, 5, 6] : [Number(programs)];
    told.textContent = "Working …";
    work = await post("api/space/robot", { run, step: asked.step, programs: wanted }, panel.signal);
    told.textContent = work.summary;
    put(log, table("What the robot did", ["program", "action", "trigger", "state", "believes", "mistake"], work.moments.map((each) => [String(each.program), each.action, each.trigger, each.state, each.belief, each.mistake || "–"])));
  });

  put(place,
    h("h2", {}, "The washing machine"),
    h("p", { class: "soft" }, "Press buttons; the network reads the same triggers and predicts the state. Filled buttons do something now."),
    h("div", { class: "columns" },
      h("section", { class: "card" },
        h("h3", {}, "Buttons"), buttons, h("h3", {}, "The machine itself"), internal,
        h("div", { class: "row" }, button("Start again", () => { pressed = []; refresh(); }, { class: "small" })),
        said, h("h3", {}, "State variables"), lamps, rows),
      h("section", { class: "card" },
        h("h3", {}, "The robot at work"),
        h("p", { class: "soft" }, "The network operates the machine: it presses what it expects to do something, and waits for the machine's own triggers."),
        h("div", { class: "row" },
          choice("Program", [["all", "all six"], ...[1, 2, 3, 4, 5, 6].map((each) => [String(each), String(each)])], programs, (each) => { programs = each; }),
          button("Let it work", operate, { class: "main" })),
        told, h("div", { class: "robot-log" }, log),
        outputs({
          name: `${run}-robot`,
          numbers: { json: () => work, csv: () => toCsv(["program", "action", "trigger", "state", "belief", "mistake"], (work?.moments ?? []).map((each) => [each.program, each.action, each.trigger, each.state, each.belief, each.mistake])) },
          python: () => work?.python ?? "Let it work first.",
        }))));
  refresh();
  return { refresh };
}
