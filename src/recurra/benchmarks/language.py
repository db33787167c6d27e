"""A language model trained from one start on the generated kernels and on torch's module: symbols a second, and losses."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from recurra.errors import OptionError
from recurra.layers.recurrent import Recurrent
from recurra.types import Shape

RUNNERS = {
    "cuda": (("fused", torch.bfloat16), ("torch", torch.float16), ("torch", torch.bfloat16)),
    "cpu": (("fused", torch.float32), ("torch", torch.float32)),
}
"""Engine and dtype, by device. Torch's LSTM is at its best on a GPU in float16."""


@dataclass(frozen=True)
class Trained:
    """One runner: its rate in symbols a second after the first tenth of the steps, and its loss at `at` steps."""

    name: str
    rate: float
    at: tuple[int, ...]
    losses: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def bench_language(
    text: str,
    shape: Shape,
    *,
    layers: int = 2,
    steps: int = 300,
    device: str = "cpu",
    say: Callable[[str], None] = print,
) -> list[Trained]:
    """Every runner has the same first weights and reads the same pieces of the text. (Torch's module has two biases for one.)"""
    if len(text) < shape.T + 2:
        raise OptionError(f"the text has {len(text)} symbols; pieces of {shape.T} need {shape.T + 2} or more.")
    known = sorted(set(text))
    numbers = {symbol: k for k, symbol in enumerate(known)}
    symbols = torch.tensor([numbers[symbol] for symbol in text], device=device)
    torch.manual_seed(0)
    first = nn.ModuleList(
        [
            nn.Embedding(len(known), shape.H),
            Recurrent("lstm", shape.H, shape.H, layers=layers),
            nn.Linear(shape.H, len(known)),
        ]
    )
    found = []
    for engine, dtype in RUNNERS[device]:
        name = f"{engine} ({str(dtype).removeprefix('torch.')})"
        say(name)
        found.append(_train(name, engine, dtype, first, symbols, shape, steps))
    return found


def _train(
    name: str, engine: str, dtype: torch.dtype, first: nn.ModuleList, symbols: Tensor, shape: Shape, steps: int
) -> Trained:
    device = symbols.device
    embedding, recurrent, output = (copy.deepcopy(part).to(device) for part in first)
    if engine == "torch":
        module = recurrent.to_torch().to(device)  # type: ignore[operator]
        module.batch_first = True
        recurrent = module
    else:
        recurrent.engine = engine  # type: ignore[assignment]
    parameters = [parameter for part in (embedding, recurrent, output) for parameter in part.parameters()]
    optimiser = torch.optim.AdamW(parameters, 2e-3, fused=device.type == "cuda")
    scaler = torch.amp.GradScaler(device.type, enabled=dtype == torch.float16)
    draw = torch.Generator(device=device).manual_seed(1)
    at = sorted({0, steps // 3, 2 * steps // 3, steps})
    losses, began, warm = [], 0.0, steps // 10
    for step in range(steps + 1):
        if step == warm:
            _wait(device)
            began = time.perf_counter()
        starts = torch.randint(len(symbols) - shape.T - 1, (shape.B, 1), device=device, generator=draw)
        piece = symbols[starts + torch.arange(shape.T + 1, device=device)]
        with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
            outputs = recurrent(embedding(piece[:, :-1]))
            logits = output(outputs[0] if engine == "torch" else outputs.outputs)
        loss = cross_entropy(logits.float().flatten(0, 1), piece[:, 1:].flatten())
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimiser)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        scaler.step(optimiser)
        scaler.update()
        if step in at:
            losses.append(loss.detach())
    _wait(device)
    seconds = time.perf_counter() - began
    rate = (steps + 1 - warm) * shape.B * shape.T / seconds
    return Trained(name, rate, tuple(at), tuple(round(float(each), 4) for each in losses))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def rows(found: Sequence[Trained]) -> list[list[str]]:
    """For a table: symbols a second, beside the best of torch's, and losses."""
    best = max((each.rate for each in found if each.name.startswith("torch")), default=0.0)
    return [
        [each.name, f"{each.rate:,.0f}", f"{each.rate / best:.2f}", ", ".join(f"{loss:.3f}" for loss in each.losses)]
        for each in found
    ]
