from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.bench import progress, read_size
from recurra.cli.output import AsJson, print_json

CELLS = "lstm,gru,gru_after,elman,leaky,lstm_peephole"
SIZES = "1x128x64,8x128x128,16x256x64,32x128x64,32x128x256,64x128x512"


def cells(
    cells: Annotated[str, typer.Option(help="Names of cells, with commas; FILE.py:NAME for your own.")] = CELLS,
    sizes: Annotated[str, typer.Option(help="Batch x steps x units (BxTxH), with commas; inputs are as wide.")] = SIZES,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="One of float32, float64, bfloat16, float16.")] = "float32",
    engines: Annotated[str, typer.Option(help="Engines to time, with commas. Default: all but eager.")] = "",
    repeats: Annotated[int, typer.Option(min=1, help="Timed rounds through all runners; medians are reported.")] = 15,
    threads: Annotated[int, typer.Option(min=0, help="Threads. Default (0): torch's, by OMP_NUM_THREADS.")] = 0,
    forward_only: Annotated[bool, typer.Option("--forward-only", help="Leave out training.")] = False,
    loop: Annotated[bool, typer.Option(help="Also time the loop over time in PyTorch, which is slow.")] = True,
    jax: Annotated[
        bool, typer.Option(help="Also time JAX's scan, if it is installed; it compiles for seconds.")
    ] = True,
    streaming: Annotated[bool, typer.Option(help="Also time a stream, sample by sample (CPU).")] = True,
    plot: Annotated[Path | None, typer.Option(help="Draw the times to this SVG file.")] = None,
    write: Annotated[Path | None, typer.Option(help="Write a page with the results, e.g. docs/benchmarks.md.")] = None,
    as_json: AsJson = False,
) -> None:
    """Time cells on every engine that runs them, beside torch.nn, JAX (if installed) and a loop over time in PyTorch.

    Exit code 1 if an engine disagrees with the eager engine; it is then not timed.
    """
    from recurra.benchmarks.cells import bench_cells
    from recurra.plots.figure import find_matplotlib, name_files
    from recurra.runs.disk import replace_file

    if plot is not None:
        name_files(plot)
        find_matplotlib()
    with progress() as say:
        found = bench_cells(
            split(cells),
            [read_size(size) for size in split(sizes)],
            engines=split(engines),
            device=device,
            dtype=dtype,
            repeats=repeats,
            threads=threads,
            forward_only=forward_only,
            loop=loop,
            jax=jax,
            streaming=streaming,
            say=say,
        )
    if plot is not None:
        found.plot(plot)
    if write is not None:
        write.parent.mkdir(parents=True, exist_ok=True)
        page = found.page(shlex.join(["recurra", *sys.argv[1:]]), plot.name if plot else None)
        replace_file(write, page.encode())
    print_json(found.to_json()) if as_json else print(found)
    if not found.agrees:
        raise typer.Exit(1)


def split(text: str) -> list[str]:
    """At commas that stand outside of brackets: `skip(d=2, ...)` is one name."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip()]
