from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.bench import progress, read_size
from recurra.cli.output import AsJson, print_json


def language(
    file: Annotated[Path, typer.Argument(help="A text, read by its characters.")],
    size: Annotated[str, typer.Option(help="Batch x steps x units (BxTxH).")] = "64x256x512",
    layers: Annotated[int, typer.Option(min=1, help="Layers of LSTM.")] = 2,
    steps: Annotated[int, typer.Option(min=3, help="Updates of each runner.")] = 300,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Train a language model on the generated kernels and on torch's LSTM, from the same weights: tokens/s, losses."""
    from recurra.benchmarks.language import bench_language
    from recurra.data.text import read_documents

    shape, text = read_size(size), "".join(document.text for document in read_documents(file))
    with progress() as say:
        found = bench_language(text, shape, layers=layers, steps=steps, device=device, say=say)
    print_json(found.to_json()) if as_json else print(found)
