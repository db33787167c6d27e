"""A language model trained from the same weights on the generated kernels and on torch's module: tokens/s, and losses."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from recurra.benchmarks.timing import Say, quiet, wait
from recurra.errors import OptionError
from recurra.layers.recurrent import Recurrent
from recurra.results import Result, Table
from recurra.tasks.task import check_device
from recurra.types import Shape

RUNNERS = {
    "cuda": (("fused", torch.bfloat16), ("torch", torch.float16), ("torch", torch.bfloat16)),
    "cpu": (("fused", torch.float32), ("torch", torch.float32)),
}
"""Engine and dtype, by device. Torch's LSTM is at its best on a GPU in float16."""


@dataclass(frozen=True)
class Trained:
    """One runner: its rate in tokens a second after the first tenth of the steps, and its loss at `at` steps."""

    name: str
    rate: float
    at: tuple[int, ...]
    losses: tuple[float, ...]


@dataclass(frozen=True)
class LanguageBenchmark(Result):
    """Every runner on the same text, from the same weights."""

    size: str
    layers: int
    device: str
    runners: tuple[Trained, ...]

    def table(self) -> Table:
        """Tokens a second, beside the best of torch's, and losses."""
        best = max((each.rate for each in self.runners if each.name.startswith("torch")), default=0.0)
        rows = [
            [
                each.name,
                f"{each.rate:,.0f}",
                f"{each.rate / best:.2f}",
                ", ".join(f"{loss:.3f}" for loss in each.losses),
            ]
            for each in self.runners
        ]
        steps = ", ".join(str(step) for step in self.runners[0].at)
        columns = ["", "tokens/s", "× torch", f"loss at steps {steps}"]
        return Table(columns, rows, f"{self.layers} layers of LSTM, {self.size}")


def bench_language(
    text: str, shape: Shape, *, layers: int = 2, steps: int = 300, device: str = "cpu", say: Say = quiet
) -> LanguageBenchmark:
    """Every runner has the same first weights and reads the same chunks of the text. (Torch's module has two biases for one.)"""
    check_device(device)
    if len(text) < shape.T + 2:
        raise OptionError(f"the text has {len(text)} tokens; chunks of {shape.T} need {shape.T + 2} or more.")
    known = sorted(set(text))
    numbers = {token: k for k, token in enumerate(known)}
    tokens = torch.tensor([numbers[token] for token in text], device=device)
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
        found.append(_train(name, engine, dtype, first, tokens, shape, steps))
    return LanguageBenchmark(f"{shape.B}x{shape.T}x{shape.H}", layers, device, tuple(found))


def _train(
    name: str, engine: str, dtype: torch.dtype, first: nn.ModuleList, tokens: Tensor, shape: Shape, steps: int
) -> Trained:
    device = tokens.device
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
            wait(device.type)
            began = time.perf_counter()
        starts = torch.randint(len(tokens) - shape.T - 1, (shape.B, 1), device=device, generator=draw)
        chunk = tokens[starts + torch.arange(shape.T + 1, device=device)]
        with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
            outputs = recurrent(embedding(chunk[:, :-1]))
            logits = output(outputs[0] if engine == "torch" else outputs.outputs)
        loss = cross_entropy(logits.float().flatten(0, 1), chunk[:, 1:].flatten())
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimiser)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        scaler.step(optimiser)
        scaler.update()
        if step in at:
            losses.append(loss.detach())
    wait(device.type)
    seconds = time.perf_counter() - began
    rate = (steps + 1 - warm) * shape.B * shape.T / seconds
    return Trained(name, rate, tuple(at), tuple(round(float(each), 4) for each in losses))
