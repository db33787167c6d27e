from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recurra.cli.output import AsJson, print_json, print_table

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
    from recurra.analysis.automata.weighted import Weighted, WeightedExtraction, extract_weighted
    from recurra.errors import OptionError, choose_from
    from recurra.plots.automaton import WRITERS, write_machine
    from recurra.tasks.catalogue import open_run

    _, task, model = open_run(run)
    reading = task.reading(model)
    chosen = choose_from("method", method or ("weighted" if reading.says_next else "quotient"), (*METHODS, "weighted"))
    if chosen == "weighted" and not reading.says_next:
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
    if isinstance(found, WeightedExtraction):
        _print_weighted(found)
    else:
        _print(found)
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


def _print(found: Extraction) -> None:
    is_known = found.accuracy is not None
    columns = ["states", "as the network: choosing", "scoring"] + (["as is true"] if is_known else [])
    rows, best = [], -1.0
    for point in found.curve:
        if point.chosen_by <= best and point is not found.chosen:
            continue
        best = max(best, point.chosen_by)
        marked = f"{point.states}{' ←' if point is found.chosen else ''}"
        rows.append([marked, _percent(point.chosen_by), _percent(point.network)])
        if point.truth is not None:
            rows[-1].append(_percent(point.truth))
    print_table(f"{found.method}: how often a machine of so many states says what the network says", columns, rows)
    if len(rows) < len(found.curve):
        print(f"{len(found.curve) - len(rows)} more, no better than a smaller one, are left out; --json has them.")
    machine = found.machine
    print(f"chosen: {_states(machine.size)}, {found.why}.")
    print(f"fidelity to the network on strings that score: {_percent(found.chosen.network)}")
    if found.chosen.truth is not None and found.accuracy is not None:
        print(f"fidelity to the truth: {_percent(found.chosen.truth)}; the network's own: {_percent(found.accuracy)}")
    if found.truth is not None:
        apart = found.difference
        print(
            f"the true machine has {found.truth.size} states; "
            + ("no string tells the two apart." if apart is None else f"they differ on {machine.spell(apart)}")
        )
    if found.counterexamples:
        print("it differs from the network on: " + "; ".join(machine.spell(each) for each in found.counterexamples))
    unknown = sum(then < 0 for row in machine.after for then in row)
    if unknown:
        print(
            f"{unknown} of {machine.size * len(machine.symbols)} ways were never taken by the strings and are not known."
        )


def _states(count: int) -> str:
    return f"{count} state{'s' if count != 1 else ''}"


def _percent(share: float) -> str:
    return f"{100 * share:.3f} %"


def _print_weighted(found: WeightedExtraction) -> None:
    points = [*found.curve, *([] if found.last_symbol is None else [found.last_symbol])]
    rows = [
        [
            f"last symbol: {point.states}"
            if point is found.last_symbol
            else f"{point.states}{' ←' if point is found.chosen else ''}",
            f"{point.chosen_by:.4f}",
            f"{point.lost:.4f}",
            _percent(point.agreement),
            *([] if point.nats is None else [f"{point.nats:.4f}"]),
        ]
        for point in points
    ]
    columns = ["states", "nats lost: choosing", "scoring", "likeliest symbol alike"]
    if found.is_true:
        columns.append("nats on what came")
    print_table("weighted: what an automaton of so many states loses to the network, a symbol", columns, rows)
    print(f"chosen: {_states(found.chosen.states)}, {found.why}.")
    if found.chosen is found.curve[-1] and found.chosen.lost > 0.01 and "asked" not in found.why:
        print(
            "the curve still falls where it ends: more states (--most) would lose less. For a drawing, ask for few (--states)."
        )
    told = "for what came next in the strings that score" if found.is_true else "on what it draws"
    print(f"it loses {found.chosen.lost:.4f} nats a symbol to the network, whose own are {found.nats:.4f} {told}.")


def _attractors(task: Task[Any], model: Any, machine: Moore) -> dict[str, list[int]]:
    """By state of the machine, the attractors of a network that rests: which of them the same triggers lead to."""
    from recurra.analysis.automata.attractors import extract_automaton, link_attractors
    from recurra.analysis.jacobians import StepMap
    from recurra.plots.automaton import state_names

    triggers = task.triggers(model)
    if triggers is None or triggers.names != machine.symbols:
        return {}
    probe = task.probe(model, 1)
    F = StepMap(probe.layer)
    start = F.pack(probe.layer.initial_state(1)).detach()[0]
    found = extract_automaton(F, triggers.x, triggers.x[0], start)
    return dict(zip(state_names(machine), link_attractors(found, machine), strict=True))
