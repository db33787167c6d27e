"""What the training loop costs over the model: the loop with its data, clipping and events against a bare one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy

from recurra.data.batches import Chunks
from recurra.models.language import LanguageModel
from recurra.training.loop import OPTIMISERS, Step, Trainer, Training


@dataclass(frozen=True)
class LoopTimes:
    """Seconds a step, medians; `ratio` is the median over pairs that ran one after the other."""

    bare: float
    loop: float
    ratio: float


def bench_loop(
    *, batch_size: int = 32, length: int = 128, hidden_size: int = 256, steps: int = 10, repeats: int = 9
) -> LoopTimes:
    """Alternate updates of a bare loop (forward, backward, optimiser on one fixed batch) with as many of the trainer's."""
    symbols = torch.randint(65, (batch_size * length * 40,), generator=torch.Generator().manual_seed(0))
    settings = Training(
        steps=10**9, batch_size=batch_size, truncation=f"every:{length}", validate_every=10**9, save_every=10**9
    )
    torch.manual_seed(0)
    model = LanguageModel(65, "lstm", hidden_size, embedding_size=64)
    trainer = Trainer(model, Chunks(symbols, batch_size, length), settings, lambda judged: 0.0)
    events = trainer.events()

    other = LanguageModel(65, "lstm", hidden_size, embedding_size=64)
    optimiser = OPTIMISERS[settings.optimiser](other.parameters(), settings)
    batch = Chunks(symbols, batch_size, length).next()

    def bare() -> None:
        logits, _ = other(batch.inputs)
        optimiser.zero_grad(set_to_none=True)
        cross_entropy(logits.flatten(0, 1), batch.targets.flatten()).backward()
        optimiser.step()

    def loop() -> None:
        assert isinstance(next(events), Step)

    pairs = []
    for _ in range(repeats + 1):
        pairs.append((_seconds(bare, steps), _seconds(loop, steps)))
    pairs = pairs[1:]  # the first compiles and warms up
    return LoopTimes(
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(b / a for a, b in pairs),
    )


def _seconds(call: Callable[[], None], times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - began) / times
