"""`recurra bench`: how fast cells run here, beside their rivals, on a terminal, as JSON, as a plot and as a page."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

from recurra.cli.output import AsJson, console, print_json, print_table
from recurra.errors import OptionError, choose_from

bench = typer.Typer(
    help="Measure speed: ratios in one run on this machine, agreement checked first.", no_args_is_help=True
)

CELLS = "lstm,gru,gru_after,elman,leaky,lstm_peephole"
SIZES = "1x128x64,8x128x128,16x256x64,32x128x64,32x128x256,64x128x512"
DTYPES = ("float32", "float64", "bfloat16", "float16")


@bench.callback()
def _group() -> None:
    """Measure speed: ratios in one run on this machine, agreement checked first."""


@bench.command()
def cells(
    cells: Annotated[str, typer.Option(help="Names of cells, with commas; FILE.py:NAME for your own.")] = CELLS,
    sizes: Annotated[
        str, typer.Option(help="Chunks x steps x units (BxTxH), with commas; inputs are as wide.")
    ] = SIZES,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    dtype: Annotated[str, typer.Option(help=f"One of {', '.join(DTYPES)}.")] = "float32",
    engines: Annotated[str, typer.Option(help="Engines to time, with commas. Default: all but the plain loop.")] = "",
    repeats: Annotated[int, typer.Option(min=1, help="Timed rounds through all runners; medians are reported.")] = 15,
    threads: Annotated[int, typer.Option(min=0, help="Threads. Default (0): as many as there are cores.")] = 0,
    forward_only: Annotated[bool, typer.Option("--forward-only", help="Leave out training.")] = False,
    loop: Annotated[bool, typer.Option(help="Also time the plain loop, which is slow.")] = True,
    jax: Annotated[
        bool, typer.Option(help="Also time JAX's scan, if it is installed; it compiles for seconds.")
    ] = True,
    streaming: Annotated[bool, typer.Option(help="Also time a stream, sample by sample (CPU).")] = True,
    plot: Annotated[Path | None, typer.Option(help="Draw the times to this SVG file.")] = None,
    write: Annotated[Path | None, typer.Option(help="Write a page with the results, e.g. docs/benchmarks.md.")] = None,
    as_json: AsJson = False,
) -> None:
    """Time cells on every engine that runs them, beside torch.nn, JAX (if installed) and the plain loop.

    Exit code 1 if an engine disagrees with the plain loop; it is then not timed.
    """
    import torch

    from recurra.benchmarks.cells import LIMITS, bench_cell, bench_streaming, matrix_rate
    from recurra.cells.catalogue import find_cell
    from recurra.engines.choose import ENGINES
    from recurra.tasks.task import check_device

    check_device(device)
    choose_from("dtype", dtype, DTYPES)
    if plot is not None:
        _find_matplotlib()
    found = [find_cell(name) for name in _split(cells)]
    shapes = [read_size(size) for size in _split(sizes)]
    wanted = [choose_from("engine", name, ENGINES) for name in _split(engines)] or None
    if not found or not shapes:
        raise OptionError("nothing to time: --cells and --sizes need at least one entry each.")

    count = threads or os.cpu_count() or 1
    kind: torch.dtype = getattr(torch, dtype)
    results, stream = [], None
    with progress() as say, _threads(count):
        say("a large matrix product")
        rate = matrix_rate(device, kind)
        for cell in found:
            for shape in shapes:
                results.append(
                    bench_cell(
                        cell,
                        shape,
                        engines=wanted,
                        device=device,
                        dtype=kind,
                        repeats=repeats,
                        forward_only=forward_only,
                        loop=loop,
                        jax=jax,
                        say=say,
                    )
                )
        if (
            streaming
            and device == "cpu"
            and ENGINES["fused"].supports(find_cell("lstm"), torch.device("cpu"), torch.float32, shapes[0])
        ):
            say("a stream")
            error, rows = bench_streaming(repeats=repeats)
            agrees = error <= LIMITS[torch.float32]
            shown = [row.as_dict() for row in rows if agrees]
            stream = {"cell": "lstm", "H": 32, "agrees": agrees, "error": error, "rows": shown}
        say("a large matrix product")
        rate = max(rate, matrix_rate(device, kind))  # machines are not equally fast all the time
    report = {
        "machine": _machine(device, count),
        "device": device,
        "dtype": dtype,
        "repeats": repeats,
        "forward_only": forward_only,
        "matrix_product_gflops": rate,
        "agrees": all(result.agrees for result in results) and (stream is None or stream["agrees"]),
        "results": [result.as_dict() for result in results],
        "streaming": stream,
    }
    if plot is not None:
        _draw(report, plot)
    if write is not None:
        write.parent.mkdir(parents=True, exist_ok=True)
        write.write_text(_page(report, _command(sys.argv), plot), encoding="utf-8")
    if as_json:
        print_json(report)
    else:
        _print(report)
    if not report["agrees"]:
        raise typer.Exit(1)


def _split(text: str) -> list[str]:
    """At commas that stand outside of brackets: `skip(d=2, ...)` is one name."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def read_size(size: str) -> Any:
    from recurra.types import Shape

    found = re.fullmatch(r"(\d+)x(\d+)x(\d+)", size)
    if not found or not all(int(part) for part in found.groups()):
        raise OptionError(f"size {size!r} cannot be read. Write lanes x steps x units, such as 32x128x256.")
    B, T, H = (int(part) for part in found.groups())
    return Shape(B, T, H, H)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """One line on standard error that changes; nothing where it is not a terminal."""
    from rich.console import Console

    out = Console(stderr=True)
    if not out.is_terminal:
        yield lambda text: None
        return
    with out.status("") as status:
        yield lambda text: status.update(text)


def _machine(device: str, threads: int) -> dict[str, Any]:
    """What the figures depend on."""
    import torch

    processor = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in ("recurra", "torch", "jax"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "threads": threads,
        "gpu": torch.cuda.get_device_name() if device == "cuda" else None,
        "versions": versions,
    }


def _columns(report: dict[str, Any]) -> list[str]:
    """On a GPU a step counts, which waiting makes much the same for any number of them; on a CPU, how near the limit is."""
    if report["device"] == "cuda":
        return ["cell", "B, T, H", "runner", "forward µs a step", "× rival", "training µs a step", "× rival", "GFLOP/s"]
    return ["cell", "B, T, H", "runner", "forward ms", "× rival", "training ms", "× rival", "GFLOP/s", "of limit"]


def _table(report: dict[str, Any]) -> list[list[str]]:
    """The rows of `_columns`; a runner that disagrees has words in the place of times."""
    rows = []
    limit = report["matrix_product_gflops"]
    for result in report["results"]:
        size = f"{result['B']}, {result['T']}, {result['H']}"
        scale = 1e3 / result["T"] if report["device"] == "cuda" else 1.0
        for row in result["rows"]:
            if not row["agrees"]:
                words = f"DISAGREES: off by {row['error']:.0e}, limit {row['limit']:.0e}"
                rows.append([result["cell"], size, row["name"], words, *[""] * (len(_columns(report)) - 4)])
                continue
            cells = [result["cell"], size, row["name"]]
            for what in ("forward", "train"):
                taken = row[f"{what}_ms"]
                cells.append(_number(None if taken is None else taken * scale))
                cells.append(_ratio(row[f"times_rival_{what}"], row["name"] == result["rival"]))
            cells.append(_number(row["gflops"]))
            if report["device"] != "cuda":
                cells.append("" if row["gflops"] is None else f"{row['gflops'] / limit:.0%}")
            rows.append(cells)
    return rows


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _ratio(value: float | None, is_rival: bool) -> str:
    return "" if value is None else "rival" if is_rival else f"{value:.2f}"


def _not_run(report: dict[str, Any]) -> list[str]:
    """Each reason once, with the cells that it holds for."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for result in report["results"]:
        for name, reason in result["not_run"].items():
            cells = reasons.setdefault((name, reason.replace(f"of {result['cell']} ", "of the cell ")), [])
            if result["cell"] not in cells:
                cells.append(result["cell"])
    everything = {result["cell"] for result in report["results"]}
    return [
        f"{name} did not run{'' if set(cells) == everything else ' ' + ', '.join(cells)}: {reason}"
        for (name, reason), cells in reasons.items()
    ]


def _facts(report: dict[str, Any]) -> list[str]:
    machine = report["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items() if number)
    return [
        f"{machine['gpu'] or machine['processor']}; {machine['cores']} cores, {machine['threads']} threads; {versions}",
        f"{report['dtype']} on {report['device']}; medians of {report['repeats']} rounds, each runner's second call in a row; "
        "inputs as wide as H",
        f"a large matrix product runs at {report['matrix_product_gflops']:.0f} GFLOP/s here",
    ]


def _print(report: dict[str, Any]) -> None:
    out = console()
    for fact in _facts(report):
        out.print(fact, markup=False, highlight=False)
    out.print()
    print_table("", _columns(report), _table(report))
    if report["streaming"]:
        rows = [[row["name"], f"{row['us_per_step']:.2f}"] for row in report["streaming"]["rows"]]
        rows = rows or [[f"DISAGREES: off by {report['streaming']['error']:.0e}", ""]]
        print_table("\nstreaming, lstm, batch 1, H = 32", ["", "µs a step"], rows)
    for line in _not_run(report):
        out.print(line, markup=False, highlight=False)


def _command(arguments: list[str]) -> str:
    return shlex.join(["recurra", *arguments[1:]])


def _page(report: dict[str, Any], command: str, plot: Path | None) -> str:
    """The results as a page of the documentation."""
    lines = ["# Benchmarks", "", "Written by", "", "<!-- not run: it takes minutes and writes this page -->"]
    lines += ["```console", f"$ {command}", "```", ""]
    lines += [f"- {fact}." for fact in _facts(report)]
    lines += [f"- {line}." for line in _not_run(report)]
    lines += [
        "",
        "Forward is timed without gradients; training is forward and backward, with gradients of inputs and all weights. "
        "Before it is timed, each runner is compared with the plain loop in float64: outputs and gradients. *× rival* is how "
        "many times as fast as the rival, which is torch's module where there is one and else the plain loop. GFLOP/s counts "
        "the products, input and recurrent, and is the rate in training unless only forward was timed"
        + ("." if report["device"] == "cuda" else "; *of limit* is its share of what a large product reaches."),
        "",
        "| " + " | ".join(_columns(report)) + " |",
        "|---|---|---|" + "---:|" * (len(_columns(report)) - 3),
        *("| " + " | ".join(row) + " |" for row in _table(report)),
    ]
    if plot is not None:
        lines += ["", f"![Times of all runners by size]({plot.name})"]
    if report["streaming"]:
        lines += ["", "## Streaming", "", "One LSTM with 32 units, one number a step, batch 1, no gradients.", ""]
        lines += ["| | µs a step |", "|---|---:|"]
        lines += [f"| {row['name']} | {row['us_per_step']:.2f} |" for row in report["streaming"]["rows"]]
    return "\n".join([*lines, ""])


def _find_matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise OptionError("--plot needs matplotlib. Install it with: pip install 'recurra[analysis]'.") from None
    matplotlib.use("svg")
    from matplotlib import pyplot

    return pyplot


def _draw(report: dict[str, Any], file: Path) -> None:
    """One panel for each cell: the time of each runner at each size, on a logarithmic axis."""
    pyplot = _find_matplotlib()
    what = "forward_ms" if report["forward_only"] else "train_ms"
    names = list(dict.fromkeys(result["cell"] for result in report["results"]))
    colours: dict[str, str] = {}
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(4.2 * columns, 3.2 * rows), squeeze=False)
    for panel, name in zip(axes.flat, names, strict=False):
        results = [result for result in report["results"] if result["cell"] == name]
        runners = list(dict.fromkeys(row["name"] for result in results for row in result["rows"]))
        labels = [f"{result['B']}, {result['T']}, {result['H']}" for result in results]
        for runner in runners:
            times = [next((row[what] for row in r["rows"] if row["name"] == runner), None) for r in results]
            colour = colours.setdefault(runner, f"C{len(colours)}")
            values = [float("nan") if each is None else each for each in times]
            panel.plot(labels, values, marker="o", color=colour, label=runner)
        panel.set_yscale("log")
        panel.set_title(name)
        panel.tick_params(axis="x", rotation=40)
        panel.legend(fontsize="small")
    for panel in axes.flat[len(names) :]:
        panel.set_visible(False)
    figure.supylabel("ms, forward" if report["forward_only"] else "ms, forward and backward")
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)
