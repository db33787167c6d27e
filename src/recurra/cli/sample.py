from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from recurra.cli.output import AsJson, Device, RunArgument, open_run, print_json


def sample(
    run: RunArgument,
    prime: Annotated[str, typer.Option(help="Text to go on from.")] = "",
    length: Annotated[int, typer.Option(min=1, help="At most this many tokens.")] = 500,
    greedy: Annotated[bool, typer.Option("--greedy", help="Always the most probable token.")] = False,
    temperature: Annotated[float, typer.Option(help="Below 1 safer, above 1 wilder.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Draw among the k most probable tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw among the fewest tokens with this probability together.")
    ] = None,
    stop_probability: Annotated[float, typer.Option(help="End before each token with this probability.")] = 0.0,
    draw_length: Annotated[
        bool, typer.Option("--draw-length", help="Draw the length first, as often as training sequences had it.")
    ] = False,
    given: Annotated[str | None, typer.Option(help="The class, for a class-conditional model.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same text.")] = None,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Text from a trained model, as it is produced."""
    how: dict[str, Any] = {"greedy": greedy, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    how |= {"stop_probability": stop_probability, "given": given, "seed": seed}
    drawn = open_run(run, device).generate(prime, None if draw_length else length, **how)
    if as_json:
        print_json({"prime": prime, "text": "".join(drawn)})
        return
    sys.stdout.write(prime)
    for part in drawn:
        sys.stdout.write(part)
        sys.stdout.flush()
    print()
