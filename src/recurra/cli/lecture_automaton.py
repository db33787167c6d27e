from __future__ import annotations

from typing import Annotated

import typer

from recurra.cli.lecture import Plot
from recurra.cli.output import AsJson, print_json


def automaton(
    language: Annotated[str, typer.Argument(help="tomita:1 to tomita:7, dyck:DEPTH, or parity.")] = "tomita:4",
    strings: Annotated[int, typer.Option(min=1, help="How many random strings both read.")] = 10_000,
    length: Annotated[int, typer.Option(min=1, help="Symbols of each.")] = 50,
    gain: Annotated[float, typer.Option(help="How steep its units are.")] = 40.0,
    seed: Annotated[int, typer.Option(help="Which strings.")] = 0,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """A network built to compute an automaton, without training, and compared with it."""
    from recurra.lecture.automaton_network import automaton_network
    from recurra.lecture.machines import find_machine

    network = automaton_network(find_machine(language), gain)
    checked = network.check(strings, length, seed)
    if plot is not None:
        network.plot(plot)
    if as_json:
        print_json(network.to_json() | checked.to_json())
        return
    print(network)
    print(checked)
