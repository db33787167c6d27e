"""Averages of the weights over training: what is evaluated and kept instead of the last ones."""

from __future__ import annotations

import copy
import re

import torch
from torch import Tensor, nn

from recurra.errors import OptionError, choose_from, quoted

FORMS = ("ema", "asgd")


def read_average(text: str | None) -> tuple[str, float] | None:
    """`ema:0.999` or `asgd:1000`, as its form and its number."""
    if text is None:
        return None
    found = re.fullmatch(r"(\w+):(\d*\.?\d+)", text.strip())
    if found is None:
        raise OptionError(f"training.average={quoted(text)} cannot be read. Write ema:0.999, asgd:1000 or none.")
    form, number = choose_from("training.average", found[1], FORMS), float(found[2])
    if form == "ema" and not 0 < number < 1:
        raise OptionError(f"training.average={text}: the decay must lie between 0 and 1.")
    if form == "asgd" and number % 1:
        raise OptionError(f"training.average={text}: the step to average from must be a whole number.")
    return form, number


class Average:
    """A copy of a model whose weights follow it.

    - `ema`: w̄ ← d w̄ + (1 − d) w with the decay d, smaller at first, so that early weights are soon forgotten.
    - `asgd`: the plain mean of the weights after each step from a given one on; until then, the weights themselves.
      Polyak & Juditsky 1992.
    """

    def __init__(self, model: nn.Module, form: str, number: float):
        self.model = copy.deepcopy(model)
        self.form, self.number = form, number

    @torch.no_grad()
    def follow(self, model: nn.Module, step: float, sound: Tensor | None = None, stride: float = 1.0) -> None:
        """Take in the weights after update number `step`, counted from 1; not if that was none, as `sound` tells where the
        weights are. An update that stands for `stride` of them counts as so many."""
        followed = {
            "ema": 1 - min(self.number, step / (step + 10)) ** stride,
            "asgd": stride / max(stride, step - self.number + stride),
        }
        mine: list[Tensor] = list(self.model.parameters())
        theirs: list[Tensor] = list(model.parameters())
        if sound is None:
            torch._foreach_lerp_(mine, theirs, followed[self.form])
        else:
            share = sound.to(mine[0].dtype) * followed[self.form]
            torch._foreach_lerp_(mine, theirs, [share] * len(mine))
