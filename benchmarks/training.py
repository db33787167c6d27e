"""What the training loop costs over the model: the loop with its data, clipping and events against a bare one."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy

from recurra.benchmarks.timing import seconds
from recurra.data.batches import Chunks
from recurra.layers.recurrent import Recurrent
from recurra.models.language import LanguageModel
from recurra.results import Result, Table
from recurra.training.events import Step
from recurra.training.loop import OPTIMISERS, Trainer, Training
from recurra.types import Shape


@dataclass(frozen=True)
class LoopTimes(Result):
    """Seconds a step, medians; `ratio` is the median over pairs that ran one after the other."""

    size: str
    bare_seconds: float
    loop_seconds: float
    ratio: float

    def table(self) -> Table:
        B, T, _ = map(int, self.size.split("x"))
        rows = [
            [name, f"{taken * 1e3:.2f}", f"{B * T / taken:,.0f}", f"{ratio:.2f}"]
            for name, taken, ratio in (
                ("bare loop", self.bare_seconds, 1.0),
                ("recurra's loop", self.loop_seconds, self.ratio),
            )
        ]
        return Table(["", "ms a step", "tokens/s", "time"], rows, f"an LSTM language model, {self.size}")


def bench_loop(shape: Shape, *, steps: int = 10, repeats: int = 9) -> LoopTimes:
    """Alternate updates of a bare loop (forward, backward, optimiser on one fixed batch) with as many of the trainer's."""
    B, T, _, H = shape
    tokens = torch.randint(65, (B * T * 40,), generator=torch.Generator().manual_seed(0))
    settings = Training(steps=10**9, batch_size=B, truncation=f"every:{T}", validate_every=10**9, save_every=10**9)
    torch.manual_seed(0)
    model = LanguageModel(65, Recurrent("lstm", 64, H))
    events = Trainer(model, Chunks(tokens, B, T), settings, lambda evaluated: 0.0).events()

    other = LanguageModel(65, Recurrent("lstm", 64, H))
    optimiser = OPTIMISERS[settings.optimiser](other.parameters(), settings)
    batch = Chunks(tokens, B, T).next()

    def bare() -> None:
        logits, _ = other(batch.inputs)
        optimiser.zero_grad(set_to_none=True)
        cross_entropy(logits.flatten(0, 1), batch.targets.flatten()).backward()
        optimiser.step()

    def loop() -> None:
        assert isinstance(next(events), Step)

    pairs = [(seconds(bare, times=steps), seconds(loop, times=steps)) for _ in range(repeats + 1)]
    pairs = pairs[1:]  # the first compiles and warms up
    return LoopTimes(
        f"{B}x{T}x{H}",
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(b / a for a, b in pairs),
    )
