from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recurra.cli.output import AsJson, print_json

if TYPE_CHECKING:
    from recurra.report.subject import Subject
    from recurra.runs.folder import RunFolder
    from recurra.tasks.task import Task


def explain(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    gradients: Annotated[
        bool, typer.Option("--gradients", help="Only: how far gradients reach back, and the eigenvalues behind it.")
    ] = False,
    fixed_points: Annotated[
        bool, typer.Option("--fixed-points", help="Only: where the network stands still under a frozen input.")
    ] = False,
    field: Annotated[bool, typer.Option("--field", help="Only: the vector field and the basins in a plane.")] = False,
    table: Annotated[str | None, typer.Option(help="Only: the cell at work on this text, step by step.")] = None,
    frozen: Annotated[
        str | None,
        typer.Option(
            "--input", help="The frozen input: a symbol or a trigger by name, or zero. Else a trigger of rest, or zero."
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=4, help="How many steps back gradients are followed; 100.")] = None,
    starts: Annotated[int | None, typer.Option(min=1, help="Starts of the search for fixed points; 1024.")] = None,
    period: Annotated[int, typer.Option(min=1, help="Also search for cycles up to this period.")] = 1,
    as_json: AsJson = False,
) -> None:
    """What a run is and what its network does: one page, RUN/report.html, for every recipe. Or only a part of it, thoroughly:
    pictures and numbers go to RUN/explain/."""
    from recurra.report.subject import open_subject

    subject = open_subject(run, steps, starts)
    if not (gradients or fixed_points or field or table is not None):
        if frozen is not None or period != 1:
            from recurra.errors import OptionError

            raise OptionError("--input and --period are for --fixed-points and --field: add one of them.")
        _report(subject, as_json)
        return
    folder, task, model = subject.folder, subject.task, subject.model
    found: dict[str, Any] = {"run": str(run)}
    if gradients:
        from recurra.report.gradients import FAR, WARMUP, write_gradients

        far = steps or FAR
        found["gradients"] = write_gradients(folder, subject.probe(far + WARMUP), far)
    if fixed_points or field:
        from recurra.report.attractors import write_automaton, write_points
        from recurra.report.gradients import FAR, WARMUP

        probe = subject.probe((steps or FAR) + WARMUP)
        triggers = task.triggers(model)
        frozen = frozen or (triggers.names[0] if triggers else "zero")
        x = task.frozen_input(model, frozen)
        machine = None
        if triggers is not None and field:
            machine = write_automaton(folder, task, model, probe, triggers)
            found["automaton"] = (
                machine.to_json() if machine else {"summary": "as a state machine: it comes to rest nowhere."}
            )
        found["fixed_points"] = write_points(
            folder, task, model, probe, x, frozen, starts or 1024, period, field, machine
        )
    if table is not None:
        found["table"] = _table(folder, task, model, table, not as_json)
    if as_json:
        print_json(found)
        return
    for part in ("gradients", "automaton", "fixed_points"):
        if part in found:
            print(found[part]["summary"])
    print(f"pictures and data: {folder.explain}")


def _report(subject: Subject, as_json: bool) -> None:
    from recurra.report.contents import write_report

    sections, left_out = write_report(subject)
    if as_json:
        titles = [section.title for section in sections]
        row = {"run": str(subject.folder.path), "report": str(subject.folder.report)}
        print_json(row | {"sections": titles, "left_out": left_out})
        return
    for section in sections:
        if section.lead:
            print(section.lead)
    print(f"report: {subject.folder.report}")


def _table(folder: RunFolder, task: Task[Any], model: Any, text: str, show: bool) -> dict[str, Any]:
    from recurra.analysis.trace_table import trace_table
    from recurra.errors import OptionError
    from recurra.runs.disk import replace_file
    from recurra.tasks.language import LanguageTask

    if not isinstance(task, LanguageTask):
        raise OptionError("--table reads a text, and this run is no language model.")
    made = trace_table(model, task.symbols_of(text), task.symbol_names)
    folder.explain.mkdir(exist_ok=True)
    replace_file(folder.explain / "table.csv", made.to_csv().encode())
    replace_file(folder.explain / "table.html", made.to_html(text).encode())
    if show:
        print(made)
    return made.to_json()
