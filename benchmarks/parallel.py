"""All of time side by side on a GPU: `scan` and `newton` beside `fused`, agreement first, and torch's `associative_scan`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from recurra.benchmarks import timing
from recurra.benchmarks.cells import LIMITS
from recurra.benchmarks.rivals import engine_runner
from recurra.benchmarks.timing import Say, Spread, quiet, time_in_turn
from recurra.engines.choose import ENGINES
from recurra.engines.newton import Newton
from recurra.layers.recurrent import Recurrent
from recurra.results import Result, Table
from recurra.tasks.task import check_device
from recurra.types import Shape

SCANNED = ("mingru", "minlstm", "lru")
SCANS = (
    Shape(1, 65_536, 256, 256),
    Shape(8, 65_536, 256, 256),
    Shape(16, 1_024, 256, 256),
    Shape(1, 1_048_576, 256, 256),
)
SOLVED = ("elman", "gru", "lstm")
SOLUTIONS = (Shape(1, 65_536, 8, 8), Shape(1, 65_536, 16, 16), Shape(1, 4_096, 16, 16))
LONGEST = 100_000
"""Steps that `fused` still takes, one after the other."""


@dataclass(frozen=True)
class Row:
    """Milliseconds of one engine at one size beside `fused`, forward without gradients and training; none where it disagrees."""

    engine: str
    cell: str
    shape: Shape
    error: float
    limit: float
    milliseconds: dict[str, Spread]
    fused: dict[str, Spread]
    note: str

    @property
    def agrees(self) -> bool:
        return self.error <= self.limit  # false for NaN

    def ratio(self, what: str) -> float | None:
        theirs = self.fused.get(what)
        return None if theirs is None else theirs.median / self.milliseconds[what].median


@dataclass(frozen=True)
class Parallel(Result):
    """All rows on one machine, and `associative_scan` in milliseconds by batch rows, or why there is no such time."""

    machine: dict[str, Any]
    rows: tuple[Row, ...]
    associative: dict[str, str]

    @property
    def agrees(self) -> bool:
        return all(row.agrees for row in self.rows)

    def table(self) -> Table:
        columns = ["engine", "cell", "B, T, H", "forward", "fused", "×", "training", "fused", "×", ""]
        cells = []
        for row in self.rows:
            B, T, _, H = row.shape
            times = []
            for what in ("forward", "training"):
                ratio = row.ratio(what)
                shown = [str(row.milliseconds[what]), str(row.fused.get(what, "")), f"{ratio:.1f}" if ratio else ""]
                times += shown if row.agrees else [""] * 3
            note = row.note if row.agrees else f"DISAGREES by {row.error:.1e}"
            cells.append([row.engine, row.cell, f"{B}, {T}, {H}", *times, note])
        return Table(columns, cells, "milliseconds of a call, medians (quartiles)")

    def __str__(self) -> str:
        lines = [f"associative_scan, compiled, float32, {name}: {text}" for name, text in self.associative.items()]
        return "\n".join([str(self.table()), *lines])


def bench_parallel(
    *,
    device: str = "cuda",
    scans: Sequence[Shape] = SCANS,
    solutions: Sequence[Shape] = SOLUTIONS,
    repeats: int = 7,
    say: Say = quiet,
) -> Parallel:
    """`scan` in bfloat16 (float32 on a CPU), `newton` in float32."""
    check_device(device)
    machine = timing.describe_machine(device, torch.get_num_threads())
    coarse = torch.bfloat16 if device == "cuda" else torch.float32
    rows = [_time("scan", cell, shape, device, coarse, repeats, say) for cell in SCANNED for shape in scans]
    rows += [
        _time("newton", cell, shape, device, torch.float32, repeats, say) for cell in SOLVED for shape in solutions
    ]
    batches = sorted({shape.B for shape in scans if shape.T == scans[0].T})
    about = {f"{B} x {scans[0].T} x {scans[0].H}": _associative(B, scans[0], device, repeats, say) for B in batches}
    return Parallel(machine, tuple(rows), about)


def _time(engine: str, cell: str, shape: Shape, device: str, dtype: torch.dtype, repeats: int, say: Say) -> Row:
    B, T, D, H = shape
    say(f"{engine}, {cell} {B}x{T}x{H}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = Recurrent(cell, D, H).to(device, dtype)
    x, weight = torch.randn(2, B, T, H, device=device).to(dtype)
    names = ["fused", engine] if T <= LONGEST else [engine]
    runners = [engine_runner(layer, name, x, weight) for name in names]
    error = 0.0
    if len(runners) == 2:
        found = [runner.read(runner.train()) for runner in runners]
        off = [(found[1][name] - value).norm() / value.norm() for name, value in found[0].items()]
        error = float(torch.stack(off).max())  # NaN if one is
    calls: dict[str, Callable[[], Any]] = {}
    for runner in runners:
        calls |= {f"forward {runner.name}": runner.forward, f"training {runner.name}": runner.train}
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    times = time_in_turn(calls, repeats, device=device, slow=[name for name in calls if name.endswith("fused")])
    of = {
        name: {what: times[f"{what} {name}"] * 1e3 for what in ("forward", "training")} if name in names else {}
        for name in ("fused", engine)
    }
    note, solver = "", ENGINES[engine]
    if isinstance(solver, Newton) and solver.tally.last:
        last = solver.tally.last
        note = f"{last.iterations} iterations, residual {last.residual:.0e}{'' if last.holds else ', refused'}"
    elif T > LONGEST and device == "cuda":
        note = f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB at most"
    return Row(engine, cell, shape, error, LIMITS[dtype], of[engine], of["fused"], note)


def _associative(B: int, shape: Shape, device: str, repeats: int, say: Say) -> str:
    """The recurrence alone, without its products, forward."""
    say(f"associative_scan, {B} rows")
    try:
        from torch._higher_order_ops.associative_scan import associative_scan

        def together(left: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            return left[0] * right[0], left[1] * right[0] + right[1]

        mode = "pointwise" if device == "cuda" else "generic"
        scan = torch.compile(lambda a, b: associative_scan(together, (a, b), dim=1, combine_mode=mode))
        a, b = torch.rand(2, B, shape.T, shape.H, device=device)
        with torch.no_grad():
            times = time_in_turn({"it": partial(scan, a, b)}, repeats, device=device)
        return f"{times['it'] * 1e3} ms"
    except Exception as error:  # the compiler's own, of many kinds
        return f"does not compile here ({type(error).__name__})"
