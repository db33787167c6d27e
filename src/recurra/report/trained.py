"""What was trained, on what, and by which equations."""

from __future__ import annotations

from contextlib import suppress

from recurra.errors import RecurraError
from recurra.layers.recurrent import Recurrent
from recurra.report.page import Figure, Section, escape, table, text_block
from recurra.report.subject import Subject
from recurra.tasks.catalogue import RECIPES
from recurra.tasks.engine_note import engine_sentence
from recurra.tasks.settings import describe


def trained_section(subject: Subject) -> Section:
    run = subject.run
    task, recipe, model = run.task, run.settings, run.model
    rows = [["recipe", f"{recipe.name}: {RECIPES[recipe.name].about}"]]
    with suppress(RecurraError):  # the data may no longer be where it was
        rows.append(["data", task.about_data])
    with suppress(RecurraError):
        rows.append(["model", task.about_model(model)])
    rows.append(["what it computes", task.factorisation])
    steps = max((row["step"] for row in run.metrics), default=0)
    trained = f"{steps:,} steps" if run.is_trained else "not at all: there is no checkpoint yet"
    rows.append(["trained", f"{trained}; seed {recipe.seed}, {recipe.dtype} on {recipe.device}"])
    told = [each for each in run.metrics if isinstance(each.get("engine"), str) and "engine_because" in each]
    rows += [["engine", engine_sentence(each)] for each in told]
    usual = {name: value for name, value, _ in describe(RECIPES[recipe.name].settings)}
    settings = [[name, _written(value), about] for name, value, about in describe(recipe)]
    changed = [row for row, (name, value, _) in zip(settings, describe(recipe), strict=True) if value != usual[name]]
    body = table(["", ""], rows)
    if changed:
        body += f"<h3>Settings that differ from the recipe's</h3>{table(['setting', 'value', ''], changed)}"
    body += (
        f"<details><summary>All {len(settings)} settings</summary>{table(['setting', 'value', ''], settings)}</details>"
    )
    command = " ".join(["train", recipe.name, *(f"{name}={value}" for name, value, _ in changed)])
    figures = [
        Figure(
            body,
            "Everything that the run depends on; the same settings and data give the same numbers.",
            "On another machine or with other versions of the libraries the numbers may differ in their last digits.",
            subject.command(command),
        )
    ]
    layer = next((each for each in model.modules() if isinstance(each, Recurrent)), None)
    figures += [
        Figure(
            f"<h3>The cell {escape(cell.name)}</h3>{text_block(str(cell.graph))}",
            "The equations of one step; a prime marks the next state, x the input's products, U the recurrent ones.",
            "These are the equations that run: every engine is generated from them or tested against them.",
            f"recurra cells {cell.name}",
        )
        for cell in dict.fromkeys(layer.cells if layer is not None else ())
    ]
    return Section("What was trained", figures)


def _written(value: object) -> str:
    return "none" if value is None else str(value)
