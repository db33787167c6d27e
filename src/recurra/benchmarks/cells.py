"""How fast a cell runs: agreement first, then medians of interleaved repeats in one run, beside its rivals."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from recurra.benchmarks.rivals import Runner, Values, engine_runner, jax_runner, torch_runner, why_no_jax
from recurra.cells.notation import Cell
from recurra.engines.choose import ENGINES
from recurra.layers.recurrent import Recurrent
from recurra.types import Shape

LIMITS = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 5e-2, torch.bfloat16: 1e-1}
"""How far an engine may be from the plain loop in float64, as norm of the difference to norm of the value."""

TF32 = 2e-3
"""The same for rivals in float32 on a GPU: cuDNN and JAX multiply in tf32 there unless they are told not to."""

PREFIX = 16
"""Steps that are compared before anything is timed."""

LOOP = "plain loop"


@dataclass
class Row:
    """One runner at one size. Times are medians in milliseconds; none where it disagrees or was not asked for."""

    name: str
    is_rival: bool
    error: float
    limit: float
    forward_ms: float | None = None
    train_ms: float | None = None

    @property
    def agrees(self) -> bool:
        return self.error <= self.limit  # false for NaN


@dataclass
class Result:
    """One cell at one size: its runners, those that cannot run it and why, and the work of its products."""

    cell: str
    shape: Shape
    forward_gflop: float
    rows: list[Row] = field(default_factory=list)
    not_run: dict[str, str] = field(default_factory=dict)

    @property
    def agrees(self) -> bool:
        return all(row.agrees for row in self.rows)

    @property
    def rival(self) -> Row | None:
        """Torch's module where there is one, else the plain loop."""
        timed = [row for row in self.rows if row.is_rival and row.forward_ms]
        named = [row for row in timed if row.name.startswith("nn.")]
        return next(iter([*named, *(row for row in timed if row.name == LOOP)]), None)

    def times_faster(self, row: Row, what: str) -> float | None:
        """How many times as fast as the rival, in `forward_ms` or `train_ms`."""
        rival = self.rival
        mine, theirs = getattr(row, what), getattr(rival, what) if rival else None
        return theirs / mine if mine and theirs else None

    def gflops(self, row: Row) -> float | None:
        """The rate of all products: training takes each of them three times."""
        if row.train_ms:
            return 3 * self.forward_gflop / row.train_ms * 1e3
        return self.forward_gflop / row.forward_ms * 1e3 if row.forward_ms else None

    def as_dict(self) -> dict[str, Any]:
        rows = [
            {
                "name": row.name,
                "kind": "rival" if row.is_rival else "engine",
                "agrees": row.agrees,
                "error": row.error,
                "limit": row.limit,
                "forward_ms": row.forward_ms,
                "train_ms": row.train_ms,
                "gflops": self.gflops(row),
                "times_rival_forward": self.times_faster(row, "forward_ms"),
                "times_rival_train": self.times_faster(row, "train_ms"),
            }
            for row in self.rows
        ]
        B, T, _, H = self.shape
        return {
            "cell": self.cell,
            "B": B,
            "T": T,
            "H": H,
            "agrees": self.agrees,
            "rival": self.rival.name if self.rival else None,
            "rows": rows,
            "not_run": self.not_run,
        }


def bench_cell(
    cell: Cell,
    shape: Shape,
    *,
    engines: Sequence[str] | None = None,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    repeats: int = 15,
    forward_only: bool = False,
    loop: bool = True,
    jax: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> Result:
    """Time one cell at one size on each of `engines` (all) that can run it, and on its rivals.

    Forward is timed without gradients; training is forward and backward with gradients of inputs and all weights.
    """
    B, T, D, H = shape
    graph = cell.graph
    products = sum(len(group.products) for stage in graph.stages for group in stage)
    result = Result(cell.name, shape, 2e-9 * B * T * H * (D * len(graph.drives) + H * products))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        # evaluating: masks of zoneout and dropout are at their mean, and all runners compute the same
        layer = Recurrent(cell, D, H, dtype=torch.float64).eval()
        x, weight = torch.randn(B, T, D, dtype=torch.float64), torch.randn(B, T, H, dtype=torch.float64)
    length = min(T, PREFIX)
    plain = engine_runner(layer, "eager", x[:, :length], weight[:, :length])
    reference = plain.read(plain.train())
    layer = copy.deepcopy(layer).to(device, dtype)
    x, weight = x.to(device, dtype), weight.to(device, dtype)

    makers: dict[str, tuple[bool, Callable[[Tensor, Tensor], Runner | None]]] = {}
    for name in engines or [each for each in ENGINES if each != "eager"]:
        answer = ENGINES[name].supports(cell, torch.device(device), dtype, shape)
        if answer:
            makers[name] = (False, lambda x, w, name=name: engine_runner(layer, name, x, w))  # type: ignore[misc]
        else:
            result.not_run[name] = answer.reason
    makers["torch"] = (True, lambda x, w: torch_runner(layer, x, w))
    if device == "cuda" and dtype != torch.float16:  # the dtype in which cuDNN has its fastest kernels
        half = copy.deepcopy(layer).to(torch.float16)
        makers["torch in float16"] = (True, lambda x, w: torch_runner(half, x.half(), w.half(), " (float16)"))
    missing = why_no_jax(device) if jax else "it was left out"
    if missing is None:
        makers["jax"] = (True, lambda x, w: jax_runner(layer, x, w))
    else:
        result.not_run["JAX scan"] = missing
    if loop:
        makers["eager"] = (True, lambda x, w: engine_runner(layer, "eager", x, w, LOOP))

    runners: list[tuple[Runner, Row]] = []
    for is_rival, make in makers.values():
        short = make(x[:, :length], weight[:, :length])
        if short is None:
            continue
        say(f"{cell.name} {B}x{T}x{H}: {short.name} against the plain loop in float64")
        limit = TF32 if is_rival and device == "cuda" and dtype == torch.float32 else LIMITS[dtype]
        row = Row(short.name, is_rival, _error(short.read(short.train()), reference), limit)
        result.rows.append(row)
        full = make(x, weight) if row.agrees else None
        if full is not None:
            runners.append((full, row))
    _time(runners, device, repeats, forward_only, lambda text: say(f"{cell.name} {B}x{T}x{H}: {text}"))
    return result


def _error(found: Values, reference: Values) -> float:
    """The largest relative error in norm of what the two have in common; NaN if anything is."""
    errors = []
    for name, value in found.items():
        expected = reference[name].to(torch.float64)
        difference = (value.to("cpu", torch.float64) - expected).norm()
        errors.append(float(difference / expected.norm().clamp(min=1e-6)))
    return max(errors, key=lambda error: (error != error, error))


def _time(
    runners: Sequence[tuple[Runner, Row]], device: str, repeats: int, forward_only: bool, say: Callable[[str], None]
) -> None:
    """Round by round through all runners, so that whatever the machine does meanwhile falls on each of them."""
    rounds = [("forward", "forward_ms"), *([] if forward_only else [("train", "train_ms")])]
    for kind, place in rounds:
        times: dict[str, list[float]] = {runner.name: [] for runner, _ in runners}
        for each in range(-1, repeats):  # the first round only warms up
            say(f"{kind}, round {each + 1} of {repeats}")
            for runner, _ in runners:
                if runner.name == LOOP and each >= max(3, repeats // 5):  # it is slow, and need not be exact
                    continue
                call = getattr(runner, kind)
                if runner.name != LOOP:
                    call()  # whoever came before has left other data in the caches, and threads asleep
                seconds = _seconds(call, device)
                if each >= 0:
                    times[runner.name].append(seconds)
        for runner, row in runners:
            setattr(row, place, statistics.median(times[runner.name]) * 1e3)


def _seconds(call: Callable[[], Any], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def matrix_rate(device: str, dtype: torch.dtype, *, size: int = 2048, repeats: int = 7) -> float:
    """GFLOP/s of a large matrix product on this machine, now, at its best: the limit of what any engine can reach."""
    a, b = torch.randn(2, size, size, device=device).to(dtype)
    times = [_seconds(lambda: a @ b, device) for _ in range(repeats + 1)][1:]
    return 2e-9 * size**3 / min(times)


@dataclass(frozen=True)
class StreamRow:
    """One way to batches: microseconds of one step."""

    name: str
    microseconds: float

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "us_per_step": self.microseconds}


def bench_streaming(*, hidden_size: int = 32, steps: int = 4800, repeats: int = 15) -> tuple[float, list[StreamRow]]:
    """One LSTM at batch 1 on a batches of single numbers, beside torch's modules; first the error against the layer."""
    from recurra.layers.stepper import Stepper

    layer = Recurrent("lstm", 1, hidden_size)
    module = layer.to_torch()
    lstm_cell = nn.LSTMCell(1, hidden_size)
    x = torch.randn(steps, 1)
    with torch.inference_mode():
        stepper = Stepper(layer)
        expected = layer(x[None]).outputs[0]
        streamed = stepper.chunk(x)
        stepper.reset()
        single = torch.stack([stepper.step(x[t]).clone() for t in range(64)])
        error = max(_distance(streamed, expected), _distance(single, expected[:64]))
        one, state = x[:1].clone(), (torch.zeros(1, hidden_size), torch.zeros(1, hidden_size))
        first, batch = x[0].clone(), x[:1, None].clone()
        calls: list[tuple[str, int, Callable[[], Any]]] = [
            ("Stepper.chunk", steps, lambda: stepper.chunk(x)),
            ("Stepper.step", 1, lambda: stepper.step(first)),
            ("nn.LSTMCell", 1, lambda: lstm_cell(one, state)),
            ("nn.LSTM, one step a call", 1, lambda: module(batch)),
        ]
        times: dict[str, list[float]] = {name: [] for name, _, _ in calls}
        for each in range(-1, repeats):
            for name, count, call in calls:
                again = 1 if count > 1 else 200
                seconds = _seconds(lambda call=call, again=again: _repeat(call, again), "cpu")  # type: ignore[misc]
                if each >= 0:
                    times[name].append(seconds / (again * count))
    return error, [StreamRow(name, statistics.median(values) * 1e6) for name, values in times.items()]


def _distance(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


def _repeat(call: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        call()
