"""What a training loop tells of: its steps, validations, checkpoints and its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recurra.runs.checkpoint import Checkpoint


@dataclass(frozen=True)
class Step:
    """One update. `loss`: what was minimised, in nats per token, or per sequence if steps are summed or weighed by 1/t.
    `planned`: how many steps there will be, as it looks now.

    ```python
    model = rc.models.LanguageModel(3, rc.Recurrent("gru", 8, 8))
    batches = rc.data.Chunks(torch.tensor([0, 1, 2] * 100), batch_size=2, length=10)
    trainer = rc.training.Trainer(model, batches, rc.training.Training(steps=5, length=10), None)
    [event.loss for event in trainer.events() if isinstance(event, rc.training.Step)]
    ```
    """

    step: int
    loss: float
    gradient_norm: float
    learning_rate: float
    tokens: int
    skipped: bool = False
    planned: int = 0


@dataclass(frozen=True)
class Measured:
    """What else was found out at a step, by name."""

    step: int
    values: dict[str, float]


@dataclass(frozen=True)
class Validated:
    """An evaluation on validation data, in nats per token."""

    step: int
    valid: float
    is_best: bool


@dataclass(frozen=True)
class Save:
    """The moment to keep a checkpoint: made lazily, since it copies everything."""

    step: int
    make: Callable[[], Checkpoint]
    is_best: bool


@dataclass(frozen=True)
class Snapshot:
    """The moment to keep the weights that are evaluated, beside the checkpoints; made lazily."""

    step: int
    make: Callable[[], Checkpoint]


@dataclass(frozen=True)
class Finished:
    step: int
    why: str
    failed: bool = False


Event = Step | Measured | Validated | Save | Snapshot | Finished
