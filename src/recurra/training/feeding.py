"""What a network reads in training: the true token before each step, or now and then its own.

| policy | the input of a step | |
|---|---|---|
| `teacher` | the true token | teacher forcing: all steps at once |
| `free` | the model's own last token; only the first of a batch is true | as it will run |
| `scheduled:P` | its own with a chance that rises in a line from 0 to P over the training | Bengio et al. 2015 |

A token that was drawn is a number: no gradient flows through the choice. So the inputs are drawn first, step by step and
without gradients, and the usual pass over the whole sequence follows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from recurra.errors import OptionError, choose_from, quoted
from recurra.models.sequence import SequenceModel
from recurra.types import State


@dataclass(frozen=True)
class Feeding:
    """How often, at the end of training, a step reads the model's own token; `rising` from 0 or throughout."""

    most: float
    rising: bool

    def share(self, step: float, steps: int) -> float:
        """The chance at an update, counted from 0."""
        return self.most * min(1.0, step / max(1, steps - 1)) if self.rising else self.most


def read_feeding(text: str) -> Feeding:
    """`teacher`, `free` or `scheduled:0.25`."""
    found = re.fullmatch(r"(\w+)(?::(\d*\.?\d+))?", text.strip())
    form = choose_from("training.feeding", found[1] if found else text, ("teacher", "free", "scheduled"))
    number = found[2] if found else None
    if form != "scheduled" and number is None:
        return Feeding(1.0 if form == "free" else 0.0, rising=False)
    if form == "scheduled" and number is not None and 0 < float(number) <= 1:
        return Feeding(float(number), rising=True)
    raise OptionError(f"training.feeding={quoted(text)} cannot be read. Write teacher, free or scheduled:0.25.")


@torch.no_grad()
def own_inputs(model: SequenceModel, inputs: Tensor, state: State | None, share: float, *, read: int = 0) -> Tensor:
    """The inputs with some of them replaced by what is drawn from the model (tokens, or numbers), which has read what stands
    before.

    The first one stays as it is; so do `read` inputs before it, which an earlier batch has had.
    """
    training = model.training
    model.eval()
    mixed = inputs.clone()
    if read:
        _, state = model(inputs[:, :read], state)
    for t in range(read, inputs.shape[1] - 1):
        predicted, state = model.step(mixed[:, t], state)
        drawn = model.draw(predicted)
        own = torch.rand(len(inputs), device=inputs.device) < share
        mixed[:, t + 1] = torch.where(own.view(-1, *[1] * (drawn.ndim - 1)), drawn, inputs[:, t + 1])
    model.train(training)
    return mixed
