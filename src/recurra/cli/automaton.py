from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recurra.cli.output import AsJson, print_json

if TYPE_CHECKING:
    from recurra.analysis.automata.extraction import Extraction
    from recurra.analysis.automata.finite import Moore
    from recurra.analysis.automata.weighted import WeightedExtraction
    from recurra.tasks.task import Task


DRAWN = 24
"""Nobody follows the ways of more states than these."""


def automaton(
    run: Annotated[
        Path, typer.Argument(help="A run folder of a network that reads symbols: a language, a text, an event log.")
    ],
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
    as_json: AsJson = False,
) -> None:
    """The finite automaton in a trained network: how many states it takes, how true it is, and where it is not."""
    from recurra.analysis.automata.extraction import METHODS, extract
    from recurra.analysis.automata.weighted import Weighted, extract_weighted
    from recurra.errors import OptionError, choose_from
    from recurra.plots.automaton import WRITERS, write_machine
    from recurra.tasks.catalogue import open_run

    _, task, model = open_run(run)
    reading = task.reading(model)
    chosen = choose_from(
        "method", method or ("weighted" if reading.predicts_next else "quotient"), (*METHODS, "weighted")
    )
    if chosen == "weighted" and not reading.predicts_next:
        raise OptionError(
            f"--method weighted is for language models and event logs, which say what comes next; {run} names classes. "
            f"Use {' or '.join(METHODS)}."
        )
    if chosen != "weighted" and reading.is_language:
        raise OptionError(f"--method {chosen} is not for language models: leave it out, and it is weighted.")
    found: Extraction | WeightedExtraction
    if chosen == "weighted":
        # fewer where each step has the chances of thousands of words
        few = max(100, 1_000_000 // len(reading.classes))
        counts = {"count": strings or min(400, few), "scored": scored or min(1000, few)}
        found = extract_weighted(reading, states=states, most=most, **counts, tell=lambda line: _tell(f"{line} …"))
    else:
        counts = {"count": strings or 400, "scored": scored or 10_000}
        found = extract(reading, chosen, states=states, most=most, **counts)
    machine = found.machine
    for file, form in ((dot, "dot"), (mermaid, "mermaid"), (svg, "svg")):
        if file is not None:
            write_machine(machine, file, WRITERS[form])
            if machine.size > DRAWN and states is None:
                _tell(f"{file} has {machine.size} states; --states {DRAWN} gives one that is easier to follow")
    attractors = {} if isinstance(machine, Weighted) else _attractors(task, model, machine)
    if as_json:
        print_json({"run": str(run), "about": reading.about} | found.to_json() | {"attractors": attractors})
        return
    print(found)
    if reading.about:
        print(reading.about)
    if attractors:
        print(
            "attractors: "
            + "; ".join(f"{name}: {', '.join(map(str, each)) or 'none'}" for name, each in attractors.items())
        )


def _tell(line: str) -> None:
    """Beside the result, on standard error."""
    print(line, file=sys.stderr, flush=True)


def _attractors(task: Task[Any], model: Any, machine: Moore) -> dict[str, list[int]]:
    """By state of the machine, the attractors of a network that rests: which of them the same triggers lead to."""
    from recurra.analysis.automata.attractors import extract_automaton, link_attractors
    from recurra.analysis.jacobians import StepMap

    triggers = task.triggers(model)
    if triggers is None or triggers.names != machine.symbols:
        return {}
    probe = task.probe(model, 1)
    F = StepMap(probe.layer)
    start = F.pack(probe.layer.initial_state(1)).detach()[0]
    found = extract_automaton(F, triggers.x, triggers.x[0], start)
    return dict(zip(machine.state_names(), link_attractors(found, machine), strict=True))
