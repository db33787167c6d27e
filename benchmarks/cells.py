"""How fast cells run: agreement first, then medians of interleaved repeats in one run, beside their rivals."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recurra.benchmarks import rivals, timing
from recurra.benchmarks.loops import STEPS
from recurra.benchmarks.rivals import Runner, Values, engine_runner
from recurra.benchmarks.streaming import Streaming, bench_streaming
from recurra.benchmarks.timing import LARGE, Say, Spread, matrix_rate, quiet, show, time_in_turn
from recurra.cells.catalogue import find_cell
from recurra.cells.notation import Cell
from recurra.engines.choose import ENGINES
from recurra.errors import OptionError, choose_from
from recurra.layers.recurrent import Recurrent
from recurra.plots.times import plot_times
from recurra.results import Result, Table, to_plain
from recurra.tasks.task import check_device
from recurra.types import Shape

LIMITS = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 5e-2, torch.bfloat16: 1e-1}
"""How far an engine may be from the eager engine in float64, as norm of the difference to norm of the value."""

DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in LIMITS}

TF32 = 2e-3
"""The limit for rivals in float32 on a GPU: cuDNN and JAX multiply in TF32 there unless they are told not to."""

PREFIX = 16
"""Steps that are compared before anything is timed."""

LOOPS = (rivals.HAND_LOOP, rivals.EAGER_LOOP)


@dataclass(frozen=True)
class Row:
    """One runner at one size. Times are in milliseconds; none where it disagrees or was not asked for."""

    name: str
    is_rival: bool
    error: float
    limit: float
    forward: Spread | None = None
    train: Spread | None = None

    @property
    def agrees(self) -> bool:
        return self.error <= self.limit  # false for NaN


@dataclass(frozen=True)
class CellTimes:
    """One cell at one size: its runners, those that cannot run it and why, and the work of its products."""

    cell: str
    shape: Shape
    forward_gflop: float
    rows: tuple[Row, ...]
    not_run: dict[str, str]

    @property
    def size(self) -> str:
        return f"{self.shape.B}, {self.shape.T}, {self.shape.H}"

    @property
    def agrees(self) -> bool:
        return all(row.agrees for row in self.rows)

    @property
    def rival(self) -> Row | None:
        """Torch's module where there is one, else the loop."""
        timed = [row for row in self.rows if row.is_rival and row.forward]
        named = [row for row in timed if row.name.startswith("nn.")]
        return next(iter([*named, *(row for row in timed if row.name in LOOPS)]), None)

    def times_faster(self, row: Row, what: str) -> float | None:
        """How many times as fast as the rival, in `forward` or `train`."""
        mine, theirs = getattr(row, what), getattr(self.rival, what, None)
        return theirs.median / mine.median if mine and theirs else None

    def gflops(self, row: Row) -> float | None:
        """The rate of all products: training takes each of them three times."""
        if row.train:
            return 3 * self.forward_gflop / row.train.median * 1e3
        return self.forward_gflop / row.forward.median * 1e3 if row.forward else None

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"cell": self.cell, "B": self.shape.B, "T": self.shape.T, "H": self.shape.H}
        found |= {"agrees": self.agrees, "rival": self.rival.name if self.rival else None, "rows": []}
        for row in self.rows:
            kind = "rival" if row.is_rival else "engine"
            each = {"name": row.name, "kind": kind, "agrees": row.agrees, "error": row.error, "limit": row.limit}
            for what in ("forward", "train"):
                spread = getattr(row, what)
                each[f"{what}_ms"] = spread and spread.median
                each[f"{what}_ms_quartiles"] = spread and [spread.low, spread.high]
                each[f"times_rival_{what}"] = self.times_faster(row, what)
            found["rows"].append(each | {"gflops": self.gflops(row)})
        return found | {"not_run": self.not_run}


@dataclass(frozen=True)
class CellBenchmark(Result):
    """All cells at all sizes on one machine."""

    machine: dict[str, Any]
    device: str
    dtype: str
    repeats: int
    forward_only: bool
    matrix_product_gflops: float
    results: tuple[CellTimes, ...]
    streaming: Streaming | None

    @property
    def agrees(self) -> bool:
        return all(each.agrees for each in self.results) and (self.streaming is None or self.streaming.agrees)

    def table(self) -> Table:
        """On a GPU time is given per step, since waiting dominates at any number of them; on a CPU, the share of the limit."""
        on_gpu = self.device == "cuda"
        unit = "µs a step" if on_gpu else "ms"
        columns = ["cell", "B, T, H", "runner", f"forward {unit}", "× rival", f"training {unit}", "× rival", "GFLOP/s"]
        columns += [] if on_gpu else ["of limit"]
        rows = []
        for result in self.results:
            scale = 1e3 / result.shape.T if on_gpu else 1.0
            for row in result.rows:
                cells = [result.cell, result.size, row.name]
                if row.agrees:
                    for what in ("forward", "train"):
                        spread, ratio = getattr(row, what), result.times_faster(row, what)
                        cells.append(str(spread * scale) if spread else "")
                        cells.append("" if ratio is None else "rival" if row is result.rival else f"{ratio:.2f}")
                    rate = result.gflops(row)
                    cells.append("" if rate is None else show(rate))
                    cells += [] if on_gpu else ["" if rate is None else f"{rate / self.matrix_product_gflops:.0%}"]
                else:
                    cells.append(f"DISAGREES: off by {row.error:.0e}, limit {row.limit:.0e}")
                rows.append(cells + [""] * (len(columns) - len(cells)))
        return Table(columns, rows)

    def facts(self) -> list[str]:
        """What the times depend on."""
        machine = self.machine
        versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items() if number)
        return [
            f"{machine['gpu'] or machine['processor']}; {machine['cores']} cores, {machine['threads']} threads; {versions}",
            f"{self.dtype} on {self.device}; medians (quartiles) of {self.repeats} rounds, each runner's second call in a "
            "row; inputs as wide as H",
            f"a large matrix product runs at {self.matrix_product_gflops:.0f} GFLOP/s here",
        ]

    def notes(self) -> list[str]:
        """Which runners did not run and why, each reason once with its cells; and whether times can be trusted."""
        reasons: dict[tuple[str, str], dict[str, None]] = {}
        for each in self.results:
            for name, reason in each.not_run.items():
                reasons.setdefault((name, reason.replace(f"of {each.cell} ", "of the cell ")), {})[each.cell] = None
        everything = {each.cell for each in self.results}
        lines = [
            f"{name} did not run{'' if set(cells) == everything else ' ' + ', '.join(cells)}: {reason}"
            for (name, reason), cells in reasons.items()
        ]
        times = [each for result in self.results for row in result.rows for each in (row.forward, row.train) if each]
        large = sum(each.is_large for each in times)
        if large:
            lines.append(
                f"the spread is large: quartiles are over {LARGE:.0%} of the median apart in {large} of {len(times)} times. "
                "Other work shares this machine, or there are few rounds; repeat before you rely on a ratio"
            )
        return lines

    def __str__(self) -> str:
        stream = [f"\n{self.streaming}"] if self.streaming else []
        return "\n".join([*self.facts(), "", str(self.table()), *stream, *self.notes()])

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = to_plain(super().to_json() | {"results": [each.to_json() for each in self.results]})
        return found | {"agrees": self.agrees}

    def page(self, command: str, picture: str | None = None) -> str:
        """The results as a page of the documentation."""
        lines = ["# Benchmarks", "", "Written by", "", "<!-- not run: it takes minutes and writes this page -->"]
        lines += ["```console", f"$ {command}", "```", "", *(f"- {line}." for line in [*self.facts(), *self.notes()])]
        limit = "." if self.device == "cuda" else "; *of limit* is its share of what a large product reaches."
        lines += [
            "",
            "Forward is timed without gradients; training is forward and backward, with gradients of inputs and all weights. "
            "Before it is timed, each runner is compared with the eager engine in float64: outputs and gradients. *× rival* is "
            "how many times as fast as the rival, which is torch's module where there is one and else the loop over time: "
            f"written by hand in PyTorch for {', '.join(STEPS)}, the eager engine for other cells. GFLOP/s counts the "
            f"products, input and recurrent, and is the rate in training unless only forward was timed{limit}",
            "",
            *_markdown(self.table(), 3),
        ]
        lines += ["", f"![Times of all runners by size]({picture})"] if picture else []
        if self.streaming:
            about = f"One LSTM with {self.streaming.hidden_size} units, one number a step, batch 1, no gradients."
            lines += ["", "## Streaming", "", about, "", *_markdown(self.streaming.table(), 1)]
        return "\n".join([*lines, ""])

    def plot(self, file: str | Path | None = None, **options: Any) -> Any:
        """One panel for each cell: the time of each runner at each size."""
        what = "forward" if self.forward_only else "train"
        times: dict[str, dict[str, dict[str, float]]] = {}
        for result in self.results:
            for row in result.rows:
                spread = getattr(row, what)
                taken = spread.median if spread else float("nan")
                times.setdefault(result.cell, {}).setdefault(row.name, {})[result.size] = taken
        return plot_times(times, f"ms, forward{'' if self.forward_only else ' and backward'}", file)


def _markdown(table: Table, left: int) -> list[str]:
    rule = "|---" * left + "|---:" * (len(table.columns) - left) + "|"
    return [f"| {' | '.join(table.columns)} |", rule, *(f"| {' | '.join(row)} |" for row in table.rows)]


def bench_cells(
    cells: Sequence[Cell | str],
    shapes: Sequence[Shape],
    *,
    engines: Sequence[str] = (),
    device: str = "cpu",
    dtype: str = "float32",
    repeats: int = 15,
    threads: int = 0,
    forward_only: bool = False,
    loop: bool = True,
    jax: bool = True,
    streaming: bool = True,
    say: Say = quiet,
) -> CellBenchmark:
    """Time cells at sizes: see `bench_cell`. `streaming` also times an LSTM sample by sample, on a CPU.

    - `threads`: 0 for as many as torch has.
    """
    check_device(device)
    kind = DTYPES[choose_from("dtype", dtype, DTYPES)]
    found = [find_cell(cell) if isinstance(cell, str) else cell for cell in cells]
    if not found or not shapes:
        raise OptionError("nothing to time: --cells and --sizes need at least one entry each.")
    results, stream = [], None
    options: dict[str, Any] = {"engines": engines, "device": device, "dtype": kind, "repeats": repeats}
    options |= {"forward_only": forward_only, "loop": loop, "jax": jax, "say": say}
    for name in engines:
        choose_from("engine", name, ENGINES)
    with timing.threads(threads) as count:
        say("a large matrix product")
        rate = matrix_rate(device, kind)
        for cell in found:
            for shape in shapes:
                results.append(bench_cell(cell, shape, **options))
        cpu = torch.device("cpu")
        if (
            streaming
            and device == "cpu"
            and ENGINES["fused"].supports(find_cell("lstm"), cpu, torch.float32, shapes[0])
        ):
            say("a stream")
            stream = bench_streaming(repeats=repeats)
        say("a large matrix product")
        rate = max(rate, matrix_rate(device, kind))  # machines are not equally fast all the time
        machine = timing.describe_machine(device, count)
    return CellBenchmark(machine, device, dtype, repeats, forward_only, rate, tuple(results), stream)


def bench_cell(
    cell: Cell,
    shape: Shape,
    *,
    engines: Sequence[str] = (),
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    repeats: int = 15,
    forward_only: bool = False,
    loop: bool = True,
    jax: bool = True,
    say: Say = quiet,
) -> CellTimes:
    """Time one cell at one size on each of `engines` (all but eager) that can run it, and on its rivals.

    Forward is timed without gradients; training is forward and backward with gradients of inputs and all weights.
    """
    B, T, D, H = shape
    graph = cell.graph
    products = sum(len(group.products) for stage in graph.stages for group in stage)
    forward_gflop = 2e-9 * B * T * H * (D * len(graph.drives) + H * products)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        # evaluating: masks of zoneout and dropout are at their mean, and all runners compute the same
        layer = Recurrent(cell, D, H, dtype=torch.float64).eval()
        x, weight = torch.randn(B, T, D, dtype=torch.float64), torch.randn(B, T, H, dtype=torch.float64)
    length = min(T, PREFIX)
    eager = engine_runner(layer, "eager", x[:, :length], weight[:, :length])
    reference = eager.read(eager.train())
    layer = copy.deepcopy(layer).to(device, dtype)
    x, weight = x.to(device, dtype), weight.to(device, dtype)

    not_run: dict[str, str] = {}
    makers: list[tuple[bool, Callable[[Tensor, Tensor], Runner | None]]] = []
    for name in engines or [each for each in ENGINES if each != "eager"]:
        answer = ENGINES[name].supports(cell, torch.device(device), dtype, shape)
        if answer:
            makers.append((False, lambda x, w, name=name: engine_runner(layer, name, x, w)))  # type: ignore[misc]
        else:
            not_run[name] = answer.reason
    makers.append((True, lambda x, w: rivals.torch_runner(layer, x, w)))
    if device == "cuda" and dtype != torch.float16:  # the dtype in which cuDNN has its fastest kernels
        half = copy.deepcopy(layer).to(torch.float16)
        makers.append((True, lambda x, w: rivals.torch_runner(half, x.half(), w.half(), " (float16)")))
    missing = rivals.why_no_jax(device) if jax else "it was left out"
    if missing is None:
        makers.append((True, lambda x, w: rivals.jax_runner(layer, x, w)))
    else:
        not_run["JAX scan"] = missing
    if loop:
        makers.append((True, lambda x, w: rivals.loop_runner(layer, x, w)))

    title = f"{cell.name} {B}x{T}x{H}"
    rows: dict[str, Row] = {}
    runners: dict[str, Runner] = {}
    for is_rival, make in makers:
        short = make(x[:, :length], weight[:, :length])
        if short is None:
            continue
        say(f"{title}: {short.name} against the eager engine in float64")
        limit = TF32 if is_rival and device == "cuda" and dtype == torch.float32 else LIMITS[dtype]
        rows[short.name] = Row(short.name, is_rival, _error(short.read(short.train()), reference), limit)
        full = make(x, weight) if rows[short.name].agrees else None
        if full is not None:
            runners[full.name] = full
    for what in ("forward",) if forward_only else ("forward", "train"):
        calls = {name: getattr(runner, what) for name, runner in runners.items()}
        note = f"{title}: {what}, "
        found = time_in_turn(calls, repeats, device=device, slow=LOOPS, say=lambda text, note=note: say(note + text))  # type: ignore[misc]
        for name, spread in found.items():
            rows[name] = replace(rows[name], **{what: spread * 1e3})  # type: ignore[arg-type]
    return CellTimes(cell.name, shape, forward_gflop, tuple(rows.values()), not_run)


def _error(found: Values, reference: Values) -> float:
    """The largest relative error in norm of what the two have in common; NaN if anything is."""
    errors = []
    for name, value in found.items():
        expected = reference[name].to(torch.float64)
        difference = (value.to("cpu", torch.float64) - expected).norm()
        errors.append(float(difference / expected.norm().clamp(min=1e-6)))
    return max(errors, key=lambda error: (error != error, error))
