from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json, print_table


def language(
    file: Annotated[Path, typer.Argument(help="A text, read by its characters.")],
    size: Annotated[str, typer.Option(help="Chunks x steps x units (BxTxH).")] = "64x256x512",
    layers: Annotated[int, typer.Option(min=1, help="Layers of LSTM.")] = 2,
    steps: Annotated[int, typer.Option(min=3, help="Updates of each runner.")] = 300,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Train a language model on the generated kernels and on torch's LSTM, from the same weights: symbols a second, losses."""
    from recurra.benchmarks.language import bench_language, rows
    from recurra.cli.bench import progress, read_size
    from recurra.data.text import read_documents
    from recurra.tasks.task import check_device

    check_device(device)
    shape = read_size(size)
    text = "".join(document.text for document in read_documents(file))
    with progress() as say:
        found = bench_language(text, shape, layers=layers, steps=steps, device=device, say=say)
    if as_json:
        print_json({"size": size, "layers": layers, "device": device, "runners": [each.as_dict() for each in found]})
        return
    steps_read = ", ".join(str(step) for step in found[0].at)
    columns = ["", "symbols/s", "× torch", f"loss at steps {steps_read}"]
    print_table(f"{layers} layers of LSTM, {size}", columns, rows(found))
