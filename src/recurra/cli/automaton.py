from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recurra.cli.output import AsJson, print_json, print_table

if TYPE_CHECKING:
    from recurra.analysis.automata.extraction import Extraction
    from recurra.analysis.automata.finite import Moore
    from recurra.analysis.automata.weighted import WeightedExtraction
    from recurra.recipes.base import Experiment


def automaton(
    run: Annotated[Path, typer.Argument(help="A run folder of a network that names a class after each symbol.")],
    method: Annotated[
        str | None,
        typer.Option(help="quotient: of visited states; learning: by asking; weighted: of a language model."),
    ] = None,
    states: Annotated[int | None, typer.Option(min=1, help="At most so many; otherwise the knee of the curve.")] = None,
    most: Annotated[int, typer.Option(min=2, help="Where the curve ends.")] = 64,
    strings: Annotated[int, typer.Option(min=1, help="How many to build on, and how many to choose on.")] = 400,
    scored: Annotated[int | None, typer.Option(min=1, help="How many to score on.")] = None,
    dot: Annotated[Path | None, typer.Option(help="Write the machine for Graphviz.")] = None,
    mermaid: Annotated[Path | None, typer.Option(help="Write it for Mermaid.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Draw it.")] = None,
    as_json: AsJson = False,
) -> None:
    """The finite automaton in a trained network: how many states it takes, how true it is, and where it is not."""
    from recurra.analysis.automata.drawing import WRITERS, write_machine
    from recurra.analysis.automata.extraction import METHODS, extract
    from recurra.analysis.automata.weighted import WeightedExtraction, extract_weighted
    from recurra.errors import OptionError, choose_from
    from recurra.recipes.catalogue import open_run

    _, experiment, model = open_run(run)
    reading = experiment.reading(model)
    chosen = choose_from(
        "method", method or ("weighted" if reading.is_language else "quotient"), (*METHODS, "weighted")
    )
    if reading.is_language != (chosen == "weighted"):
        raise OptionError(f"--method {chosen} is not for {run}: weighted is for language models, and for them alone.")
    found: Extraction | WeightedExtraction
    if chosen == "weighted":
        found = extract_weighted(reading, states=states, most=most, count=strings, scored=scored or 1000)
    else:
        found = extract(reading, chosen, states=states, most=most, count=strings, scored=scored or 10_000)
    machine = found.machine
    for file, form in ((dot, "dot"), (mermaid, "mermaid"), (svg, "svg")):
        if file is not None:
            write_machine(machine, file, WRITERS[form])
    attractors = _attractors(experiment, model, machine)
    if as_json:
        print_json({"run": str(run)} | found.to_json() | {"attractors": attractors})
    elif isinstance(found, WeightedExtraction):
        _print_weighted(found)
    else:
        _print(found)
    if attractors and not as_json:
        print(
            "attractors: "
            + "; ".join(f"{name}: {', '.join(map(str, each)) or 'none'}" for name, each in attractors.items())
        )


def _print(found: Extraction) -> None:
    columns = ["states", "as the network: choosing", "scoring"] + (["as is true"] if found.truth else [])
    rows = []
    for point in found.curve:
        marked = f"{point.states}{' ←' if point is found.chosen else ''}"
        rows.append([marked, _percent(point.chosen_by), _percent(point.network)])
        if point.truth is not None:
            rows[-1].append(_percent(point.truth))
    print_table(f"{found.method}: how often a machine of so many states says what the network says", columns, rows)
    machine = found.machine
    print(f"chosen: {machine.size} states, {found.why}.")
    print(f"fidelity to the network on strings that score: {_percent(found.chosen.network)}")
    if found.truth is not None and found.chosen.truth is not None and found.accuracy is not None:
        print(f"fidelity to the truth: {_percent(found.chosen.truth)}; the network's own: {_percent(found.accuracy)}")
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


def _percent(share: float) -> str:
    return f"{100 * share:.3f} %"


def _print_weighted(found: WeightedExtraction) -> None:
    rows = [
        [
            f"{point.states}{' ←' if point is found.chosen else ''}",
            f"{point.chosen_by:.4f}",
            f"{point.lost:.4f}",
            _percent(point.agreement),
        ]
        for point in found.curve
    ]
    columns = ["states", "nats lost: choosing", "scoring", "likeliest symbol alike"]
    print_table("weighted: what an automaton of so many states loses to the network, a symbol", columns, rows)
    print(f"chosen: {found.chosen.states} states, {found.why}.")
    print(
        f"it loses {found.chosen.lost:.4f} nats a symbol to the network, whose own are {found.nats:.4f} on what it draws."
    )


def _attractors(experiment: Experiment[Any], model: Any, machine: Moore) -> dict[str, list[int]]:
    """By state of the machine, the attractors of a network that rests: which of them the same triggers lead to."""
    from recurra.analysis.automata.attractors import extract_automaton, link_attractors
    from recurra.analysis.automata.drawing import state_names
    from recurra.analysis.jacobians import StepMap

    triggers = experiment.triggers(model)
    if triggers is None or triggers.names != machine.symbols:
        return {}
    probe = experiment.probe(model, 1)
    F = StepMap(probe.layer)
    start = F.pack(probe.layer.initial_state(1)).detach()[0]
    found = extract_automaton(F, triggers.x, triggers.x[0], start)
    return dict(zip(state_names(machine), link_attractors(found, machine), strict=True))
