from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json


def unroll(
    cell: Annotated[str, typer.Argument(help="A cell: gru, 'skip(d=2)', FILE.py:NAME, FILE.json.")],
    steps: Annotated[int, typer.Option(help="So many steps; of an encoder, if there is a decoder.")] = 3,
    loss: Annotated[str, typer.Option(help="At each step, at the last one, or none.")] = "each",
    truncation: Annotated[str, typer.Option(help="none, every:K or window:K: which gradients are kept.")] = "none",
    layers: Annotated[int, typer.Option(help="How many are stacked.")] = 1,
    bidirectional: Annotated[bool, typer.Option("--bidirectional", help="Also read from the end.")] = False,
    residual: Annotated[bool, typer.Option("--residual", help="Add a layer's input to its output.")] = False,
    feeding: Annotated[
        str, typer.Option(help="teacher: the last target is read; free: the last output; none.")
    ] = "none",
    recurrence: Annotated[str, typer.Option(help="state, or output: no arrow from state to state.")] = "state",
    decoder: Annotated[int, typer.Option(help="So many steps of a decoder after the encoder's.")] = 0,
    gradients: Annotated[
        int | None, typer.Option(min=1, help="Of a random network of so many units and a random input.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of that network and input.")] = 0,
    wires: Annotated[str | None, typer.Option(help="Draw every connection instead: 3-5-4.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="FILE.svg, .png or .pdf; without an ending SVG and PNG, light and dark.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The graph of a cell, rolled and unrolled: shared weights, losses, and which gradients a truncation keeps."""
    import torch

    from recurra.errors import OptionError
    from recurra.layers.recurrent import Recurrent
    from recurra.lecture.unroll import unroll as unroll_cell
    from recurra.lecture.unroll import wire
    from recurra.results import Result

    found: Result
    if wires is not None:
        sizes = wires.split("-")
        if len(sizes) != 3 or not all(size.isdecimal() for size in sizes):
            raise OptionError(f"wires are inputs, units and outputs, as in 3-5-4; got {wires!r}.")
        found = wire(*map(int, sizes), seed=seed)
    else:
        how = {"loss": loss, "truncation": truncation, "feeding": feeding, "recurrence": recurrence, "decoder": decoder}
        if gradients is None:
            depth = {"layers": layers, "bidirectional": bidirectional, "residual": residual}
            found = unroll_cell(cell, steps, **how, **depth)  # type: ignore[arg-type]
        else:
            torch.manual_seed(seed)
            network = Recurrent(cell, 3, gradients, layers=layers, bidirectional=bidirectional, residual=residual)
            found = unroll_cell(network, x=torch.randn(steps, 3), **how)  # type: ignore[arg-type]
    if out is not None:
        found.plot(out)
    print_json(found.to_json()) if as_json else print(found)
