// Generate: what a run can write, by what it is capable of.
import { get } from "../kit/api.js";
import { h, put, table } from "../kit/dom.js";
import { forecaster } from "./generate-forecast.js";
import { sampler } from "./generate-sample.js";
import { translator } from "./generate-translate.js";

const MAKERS = { sample: sampler, translate: translator, forecast: forecaster };

export async function show(panel) {
  const about = await get("api/generate/about", { run: panel.run.name }, panel.signal);
  const able = Object.keys(MAKERS).filter((verb) => about.verbs.includes(verb));
  put(panel.place, able.map((verb) => MAKERS[verb](panel, about)),
    able.length ? null : h("p", {}, `A run of ${panel.run.recipe} writes no text, translation or forecast. It can: ${about.verbs.join(", ")}.`),
    about.examples && able.includes("translate") ? h("div", { class: "card" }, h("h2", {}, "Inputs that it never saw"), table("What it gives for a few inputs that it never saw", about.examples.columns, about.examples.rows)) : null);
}
