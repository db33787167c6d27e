"""How long cells remember: adding, copying and parity over lengths, every cell with the same settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from recurra.analysis.memory_lengths import MemoryComparison, MemoryRow
from recurra.benchmarks.timing import Say, quiet
from recurra.errors import OptionError, choose_from
from recurra.tasks.catalogue import find_recipe
from recurra.tasks.memory import MemoryTask

TASKS = {"adding": "long-memory", "copying": "long-memory-copying", "parity": "parity"}
"""The recipe that each task's settings are taken from."""
CELLS = ("elman", "gru", "lstm", "leaky", "orthogonal")
LENGTHS = (5, 10, 20, 40, 80)


def compare_memory(
    task: str,
    cells: Sequence[str] = CELLS,
    lengths: Sequence[int] = LENGTHS,
    *,
    steps: int = 600,
    hidden_size: int = 32,
    seeds: int = 3,
    say: Say = quiet,
) -> MemoryComparison:
    """Train every cell at every length, all with the same size, learning rate and number of steps; score what was never seen."""
    choose_from("task", task, TASKS)
    if not cells or not lengths or min(lengths) < 2 or seeds < 1:
        raise OptionError(f"there must be cells, lengths of at least 2 and a seed; got {cells}, {lengths}, {seeds}.")
    rows = []
    for cell in cells:
        for length in lengths:
            scores = tuple(_score(task, cell, length, steps, hidden_size, seed) for seed in range(seeds))
            rows.append(MemoryRow(cell, length, scores))
            say(f"{cell}, length {length}: {', '.join(f'{score:.2f}' for score in scores)}")
    return MemoryComparison(task, steps, tuple(rows))


def _score(task: str, cell: str, length: int, steps: int, hidden_size: int, seed: int) -> float:
    settings = [f"model.cell={cell}", f"model.hidden_size={hidden_size}", f"data.length={length}", f"seed={seed}"]
    settings += [f"training.{each}" for each in (f"steps={steps}", f"validate_every={steps}", "learning_rate=0.005")]
    settings += ["training.batch_size=32", "training.clip_norm=1.0", "model.weight_dropout=0"]
    made: Any = find_recipe(TASKS[task]).configure(settings)
    assert isinstance(made, MemoryTask)
    trainer = made.trainer()
    for _ in trainer.events():
        pass
    network, *other = made.evaluate(trainer.evaluated).scores.values()
    if task == "adding":
        return max(0.0, 1 - network["mean squared error"] / other[0]["mean squared error"])
    chance, found = (1 / 8, network["recalled"]) if task == "copying" else (0.5, network["accuracy"])
    score = (found - chance) / (1 - chance)
    return 0.0 if math.isnan(score) else max(0.0, score)
