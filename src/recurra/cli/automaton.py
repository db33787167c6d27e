from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, Device, RunArgument, open_run, print_json

DRAWN = 24
"""Nobody follows the transitions of more states than these."""


def automaton(
    run: RunArgument,
    method: Annotated[
        str | None,
        typer.Option(
            help="quotient: of visited states; learning: by asking; weighted: with chances, of a language model or event log."
        ),
    ] = None,
    states: Annotated[int | None, typer.Option(min=1, help="At most so many; otherwise the knee of the curve.")] = None,
    most: Annotated[int, typer.Option(min=2, help="Where the curve ends.")] = 64,
    strings: Annotated[
        int | None,
        typer.Option(
            min=1, help="How many to build on, and how many to choose on; 400, or fewer for thousands of words."
        ),
    ] = None,
    scored: Annotated[
        int | None, typer.Option(min=1, help="How many to score on; 10,000, or up to 1,000 for a weighted automaton.")
    ] = None,
    dot: Annotated[Path | None, typer.Option(help="Write the machine for Graphviz.")] = None,
    mermaid: Annotated[Path | None, typer.Option(help="Write it for Mermaid.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Draw it.")] = None,
    circles: Annotated[
        Path | None,
        typer.Option(help="Draw it as circles and arrows: FILE.svg, .png or .pdf, or without an ending all."),
    ] = None,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """The finite automaton in a trained network: how many states it takes, how true it is, and where it is not."""
    from recurra.plots.automaton import WRITERS, write_machine

    def tell(line: str) -> None:
        typer.echo(line, err=True)

    opened = open_run(run, device)
    found = opened.automaton(
        method, states=states, most=most, strings=strings, scored=scored, tell=lambda line: tell(f"{line} …")
    )
    machine = found.machine
    for file, form in ((dot, "dot"), (mermaid, "mermaid"), (svg, "svg")):
        if file is not None:
            write_machine(machine, file, WRITERS[form])
            if machine.size > DRAWN and states is None:
                tell(f"{file} has {machine.size} states; --states {DRAWN} gives one that is easier to follow")
    if circles is not None:
        machine.plot(circles, form="circles")
    attractors = opened.linked_attractors(machine)
    if as_json:
        print_json({"run": str(run), "about": found.about} | found.to_json() | {"attractors": attractors})
        return
    print(found)
    if found.about:
        print(found.about)
    if attractors:
        linked = (f"{name}: {', '.join(map(str, each)) or 'none'}" for name, each in attractors.items())
        print("attractors: " + "; ".join(linked))
