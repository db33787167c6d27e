from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recurra.cli.output import AsJson, console, print_json

if TYPE_CHECKING:
    from recurra.analysis.neurons import Unit
    from recurra.analysis.source_labels import Labeller, Values
    from recurra.analysis.unit_study import Reading, UnitStudy
    from recurra.report.subject import Subject
    from recurra.tasks.language import LanguageTask

SHOWN = 600
"""Symbols of a coloured text on the terminal."""


def units(
    run: Annotated[Path, typer.Argument(help="A run folder of a language model.")],
    label: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this label, e.g. inside-string; or one of your own: FILE.py:FUNCTION, or from a table FILE.tsv:COLUMN or "
            "FILE.tsv:COLUMN=VALUE. Again for more."
        ),
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="A text file, folder or glob; otherwise the run's held-out text.")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Do not search: show this unit over the text, LAYER.NAME.INDEX as in 0.c.17.")
    ] = None,
    states: Annotated[bool, typer.Option("--states", help="Search among states only, not among gates.")] = False,
    size: Annotated[int, typer.Option(min=100, help="How many characters are read, both parts together.")] = 100_000,
    html: Annotated[Path | None, typer.Option(help="Also write a page with the units over the text.")] = None,
    seed: Annotated[int, typer.Option(help="Of the shifts that labels are controlled by.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Single units that follow something in the text: strings, comments, depth. Chosen on one part of it, scored on another,
    beside shifted labels and the network before training."""
    from recurra.analysis.neurons import read_unit
    from recurra.analysis.unit_study import PIECE, Piece, deal, read_pieces, study_units
    from recurra.errors import OptionError
    from recurra.report.subject import open_subject
    from recurra.tasks.language import LanguageTask

    subject = open_subject(run)
    task = subject.task
    if not isinstance(task, LanguageTask):
        raise OptionError(f"{run} is no language model: its recipe is {task.settings.name}. Units are shown over text.")
    texts, labeller, columns, names = _read(task, text, label or [])
    if unit is not None:
        shown = read_unit(unit, subject.model.recurrent)
        pieces = [Piece(k, slice(0, PIECE)) for k in range(len(texts))][: max(1, size // PIECE)]
        reading = read_pieces(task.tokenizer, texts, pieces, labeller, columns)
        _show(subject, shown, reading, names, html, as_json)
        return
    chosen, scored = (read_pieces(task.tokenizer, texts, part, labeller, columns) for part in deal(texts, size))
    before = task.untrained_model()
    study = study_units(subject.model, before, chosen, scored, names or None, gates=not states, seed=seed)
    if html is not None:
        _write_page(subject, study, html, f"units RUN --size {size}")
    if as_json:
        print_json({"run": str(run)} | study.to_json())
        return
    _print(study)
    if html is not None:
        print(f"page: {html}")


def _read(
    task: LanguageTask, text: str | None, asked: list[str]
) -> tuple[list[str], Labeller, dict[str, list[Values]], list[str]]:
    """The texts, what labels them, labels that tables give them, and the names of the labels that were asked for."""
    from recurra.analysis.column_labels import column_name, is_column, read_column
    from recurra.analysis.user_labels import read_labeller
    from recurra.data.text import read_documents
    from recurra.errors import OptionError
    from recurra.report.units import usual_labels

    tables = [each for each in asked if is_column(each)]
    for each in asked:
        looks_like_a_file = ":" in each or each.endswith((".py", ".csv", ".tsv"))
        if looks_like_a_file and not is_column(each) and ".py:" not in each:
            raise OptionError(
                f"--label {each}: a label of your own is FILE.py:FUNCTION, or a table FILE.tsv:COLUMN or FILE.csv:COLUMN."
            )
    if tables and text is None:
        raise OptionError(f"--label {tables[0]}: the rows of a table are for a text that you name. Add --text FILE.")
    documents = task.held_out if text is None else read_documents(text)
    texts = [document.text for document in documents]
    usual = usual_labels([document.name for document in documents])
    own = {each.rpartition(":")[2]: read_labeller(each) for each in asked if ".py:" in each}
    columns = {column_name(each): read_column(each, texts) for each in tables}

    def labeller(text: str) -> dict[str, Any]:
        return {name: values for each in (usual, *own.values()) for name, values in each(text).items()}

    names = [column_name(each) if is_column(each) else each.rpartition(":")[2] for each in asked]
    return texts, labeller, columns, names


def _print(study: UnitStudy) -> None:
    from recurra.plots.units import excerpt

    if study.found:
        best = study.found[0]
        print(f"Unit {best.best.unit} over held-out text; underlined where {best.label} holds:\n")
        console().print(excerpt(study, best, SHOWN).to_terminal())
        print()
    print(study)


def _show(subject: Subject, unit: Unit, reading: Reading, names: list[str], html: Path | None, as_json: bool) -> None:
    """One unit over the text, with the first label that was asked for."""
    from recurra.analysis.unit_study import PIECE
    from recurra.errors import choose_from
    from recurra.plots.units import colour_reading
    from recurra.report.page import Figure, Section
    from recurra.report.units import coloured_block

    label = choose_from("label", names[0], reading.labels) if names else None
    activity = reading.record(subject.model)
    if html is not None:
        coloured = colour_reading(reading, activity, unit, label, size=PIECE)
        figure = Figure(
            coloured_block(coloured),
            f"The value of unit {unit} behind the text that it reads.",
            "One text; what a unit does here it need not do elsewhere.",
            subject.command(f"units RUN --unit {unit}" + (f" --label {label}" if label else "")),
        )
        _write(html, f"Unit {unit}", subject, [Section("Over the text", [figure])])
    values = activity.of(unit)[: int(reading.lengths[0])]
    if as_json:
        row = {"run": str(subject.folder.path), "unit": str(unit), "symbols": reading.tokens(0)}
        print_json(row | {"values": values.tolist()})
        return
    console().print(colour_reading(reading, activity, unit, label, size=SHOWN).to_terminal())
    print(f"unit {unit}: {float(values.min()):.3f} (orange) to {float(values.max()):.3f} (blue)")
    if html is not None:
        print(f"page: {html}")


def _write_page(subject: Subject, study: UnitStudy, html: Path, command: str) -> None:
    from recurra.report.page import Section
    from recurra.report.units import study_figures

    figures = study_figures(study, subject.command(command), subject, most=len(study.findings))
    _write(html, "Units over text", subject, [Section("Units", figures, study.summary)])


def _write(html: Path, title: str, subject: Subject, sections: list[Any]) -> None:
    from recurra.errors import OptionError
    from recurra.report.page import render
    from recurra.runs.disk import reason, replace_file

    lead = f"Run {subject.folder.path.resolve().name}, a run of the recipe {subject.task.settings.name}."
    try:
        replace_file(html, render(title, lead, sections).encode())
    except OSError as error:
        raise OptionError(f"{html} cannot be written ({reason(error)}). Choose another place.") from error
