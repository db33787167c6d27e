from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, Device, RunArgument, console, open_run, print_json

SHOWN = 600
"""Tokens of a coloured text on the terminal."""


def units(
    run: RunArgument,
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
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Single units that follow something in the text: strings, comments, depth. Chosen on one part of it, scored on another,
    beside shifted labels and the network before training."""
    from recurra.plots.units import colour_reading, excerpt
    from recurra.report.units import write_unit_page, write_units_page

    opened = open_run(run, device)
    if unit is not None:
        found = opened.unit(unit, label or [], text, size=size)
        if html is not None:
            write_unit_page(opened, found, html)
        if as_json:
            print_json({"run": str(run)} | found.to_json())
            return
        console().print(
            colour_reading(found.reading, found.activity, found.unit, found.label, size=SHOWN).to_terminal()
        )
        print(found)
    else:
        study = opened.units(label or [], text, gates=not states, size=size, seed=seed)
        if html is not None:
            write_units_page(opened, study, html, f"units RUN --size {size}")
        if as_json:
            print_json({"run": str(run)} | study.to_json())
            return
        if study.found:
            best = study.found[0]
            print(f"Unit {best.best.unit} over held-out text; bold where {best.label} holds:\n")
            console().print(excerpt(study, best, SHOWN).to_terminal())
            print()
        print(study)
    if html is not None:
        print(f"page: {html}")
