"""Tree regularization: networks whose predictions a small decision tree can mimic. Wu et al. 2018.

The penalty is λ · Ω(W): how many questions a decision tree asks on average that predicts at each step what the network with the
weights W predicts. Ω has no gradient. A surrogate network learns Ω(W) from weights that training has passed through
and from others around them, and its gradient is taken instead. As W moves on, the surrogate is fitted again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from recurra.errors import OptionError
from recurra.models.decision_tree import MIN_LEAF, Classes, DecisionTree, Numbers, find_grower, grow_tree
from recurra.types import Float, Int

MOST_WEIGHTS = 50_000
"""The surrogate reads every weight of the network: larger ones are refused."""
MOST_STEPS = 5000
"""How many steps of training data a tree is grown from while the network learns."""

MEASURED = 5
"""Steps of training between two measurements of Ω at the weights that it passes through."""
REFITTED = 25
"""Steps of training between two fits of the surrogate."""
AROUND = 30
"""How many weights around the present ones are measured for each fit, since those of one path predict little about other ways."""
SPREAD = 0.2
"""How far around: the size of normal noise, as a share of the size of the weights."""
KEPT = 600
"""How many measured weights the surrogate is fitted to, the latest ones."""
ROUNDS = 30
"""Steps of one fit."""
UNITS = 25
"""Of the surrogate's hidden layer."""


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of sequences as a tree sees them, and how a model is asked what it predicts of them.

    - `x`: what is read at each step. `features`, `classes`: names.
    - `targets`: the true class of each step. `probabilities`: a model to P(class) at each step, without dropout.

    ```python
    x, y = np.random.default_rng(0).normal(size=(60, 2)), torch.arange(60) % 2
    steps = rc.training.Steps(x, ("a", "b"), ("no", "yes"), y, lambda model: model(torch.tensor(x)).softmax(-1))
    ```
    """

    x: Numbers
    features: tuple[str, ...]
    classes: tuple[str, ...]
    targets: Int[Tensor, " M"]
    probabilities: Callable[[Any], Float[Tensor, "M C"]]

    def predicted(self, model: Any) -> Classes:
        """The class that the model finds most probable, at each step."""
        found: Classes = self.probabilities(model).argmax(-1).cpu().numpy()
        return found

    def mimic(self, model: Any, min_leaf: int = MIN_LEAF) -> DecisionTree:
        """The tree that predicts what the model predicts."""
        return grow_tree(self.x, self.predicted(model), self.features, self.classes, min_leaf=min_leaf)

    def path_length(self, model: Any) -> float:
        """Ω: how many questions that tree asks of a step, on average."""
        return self.mimic(model).own_path_length


class Surrogate(nn.Module):
    """Weights to the path length that is expected of them: one hidden layer, in units of what it was last fitted to."""

    centre: Tensor
    spread: Tensor
    mean: Tensor
    size: Tensor
    fits: Tensor

    def __init__(self, weights: int):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(weights, UNITS), nn.Tanh(), nn.Linear(UNITS, 1))
        self.register_buffer("centre", torch.zeros(weights))
        for name, value in (("spread", 1.0), ("mean", 0.0), ("size", 1.0)):
            self.register_buffer(name, torch.tensor(value))
        self.register_buffer("fits", torch.tensor(0))

    def forward(self, weights: Float[Tensor, "*N W"]) -> Float[Tensor, "*N"]:
        found: Tensor = self.net((weights - self.centre) / self.spread)[..., 0]
        return self.mean + self.size * found

    def fit(self, weights: Float[Tensor, "N W"], lengths: Float[Tensor, " N"]) -> None:
        """Go on learning, from all that is known."""
        self.centre.copy_(weights.mean(0))
        self.spread.copy_((weights - self.centre).square().mean().sqrt().clamp(min=1e-8))
        self.mean.copy_(lengths.mean())
        self.size.copy_(lengths.std(correction=0).clamp(min=1e-3))
        optimiser = torch.optim.AdamW(self.net.parameters(), lr=1e-2, weight_decay=1e-2)
        for _ in range(ROUNDS):
            optimiser.zero_grad()
            ((self(weights) - lengths) / self.size).square().mean().backward()
            optimiser.step()
        self.fits += 1

    @torch.no_grad()
    def error(self, weights: Float[Tensor, "N W"], lengths: Float[Tensor, " N"]) -> float:
        """By how many questions it is wrong, on average."""
        return float((self(weights) - lengths).abs().mean())


class TreePenalty:
    """λ · Ω of a network in training, by way of a surrogate that follows it.

    - `strength`: λ, in nats for a question. `steps`: what trees are grown from. `seed`: of weights around, and of the surrogate.

    ```python
    x, y = np.random.default_rng(0).normal(size=(60, 2)), torch.arange(60) % 2
    model = torch.nn.Linear(2, 2)
    steps = rc.training.Steps(x, ("a", "b"), ("no", "yes"), y, lambda model: model(torch.tensor(x).float()).softmax(-1))
    penalty = rc.training.TreePenalty(0.05, steps, model, seed=0)   # rc.training.Trainer(..., penalty=penalty) adds its gradient
    ```
    """

    def __init__(self, strength: float, steps: Steps, model: nn.Module, seed: int = 0):
        find_grower()  # where it is missing, that is predicted before anything is trained
        weights = _flat(model)
        if len(weights) > MOST_WEIGHTS:
            raise OptionError(
                f"training.tree is for small networks: this one has {len(weights):,} weights, and its penalty is learned from "
                f"all of them, at most {MOST_WEIGHTS:,}. Make model.hidden_size or model.embedding_size smaller."
            )
        self.strength, self.steps, self.seed = strength, steps, seed
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.surrogate = Surrogate(len(weights)).to(weights.device)
        self._other = copy.deepcopy(model)
        self._weights = weights.new_empty(0, len(weights))
        self._lengths = weights.new_empty(0)

    @property
    def is_ready(self) -> bool:
        """Whether the surrogate was fitted yet; until then there is no penalty."""
        return bool(self.surrogate.fits)

    def of(self, model: Any) -> float:
        """λ · Ω as it truly is, from a tree that is grown now."""
        return self.strength * self.steps.path_length(model)

    def add_gradients(self, model: nn.Module) -> Tensor:
        """Add the surrogate's gradient to the weights' own; the penalty that it expects."""
        weights = _flat(model).requires_grad_()
        if not self.is_ready:
            return weights.new_zeros(())
        value = self.strength * self.surrogate(weights)
        (gradient,) = torch.autograd.grad(value, weights)
        parts = gradient.split([each.numel() for each in model.parameters()])
        for parameter, part in zip(model.parameters(), parts, strict=True):
            added = part.view_as(parameter).to(parameter.dtype)
            parameter.grad = added if parameter.grad is None else parameter.grad + added
        expected: Tensor = value.detach()
        return expected

    def follow(self, model: nn.Module, step: int) -> dict[str, float]:
        """Take in the weights after update number `step`; what was found out, where the surrogate was fitted.

        - `path_length`: Ω of the weights now. `surrogate_error`: by how many questions the surrogate was wrong about weights
          that it had not seen; `surrogate_fit_error`: about those that it has been fitted to since.
        """
        if step % MEASURED and step % REFITTED:
            return {}
        now = _flat(model)
        length = self.steps.path_length(model)
        self._keep(now[None], now.new_tensor([length]))
        if step % REFITTED:
            return {}
        noise = torch.Generator().manual_seed(_mixed(self.seed, step))
        drawn = torch.randn(AROUND, len(now), generator=noise).to(now)
        around = now + SPREAD * now.square().mean().sqrt() * drawn
        lengths = now.new_tensor([self._measure(weights) for weights in around])
        found = {"path_length": length}
        if self.is_ready:
            found["surrogate_error"] = self.surrogate.error(around, lengths)
        self._keep(around, lengths)
        self.surrogate.fit(self._weights, self._lengths)
        return found | {"surrogate_fit_error": self.surrogate.error(self._weights, self._lengths)}

    def _measure(self, weights: Float[Tensor, " W"]) -> float:
        own = next(self._other.parameters())
        vector_to_parameters(weights.to(own.dtype), self._other.parameters())
        return self.steps.path_length(self._other)

    def _keep(self, weights: Float[Tensor, "N W"], lengths: Float[Tensor, " N"]) -> None:
        self._weights = torch.cat([self._weights, weights])[-KEPT:]
        self._lengths = torch.cat([self._lengths, lengths])[-KEPT:]

    def state(self) -> dict[str, Tensor]:
        """What going on needs."""
        fitted = {f"surrogate.{name}": value for name, value in self.surrogate.state_dict().items()}
        return {"weights": self._weights, "lengths": self._lengths} | fitted

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a state."""
        self._weights, self._lengths = (tensors[name].to(self._weights) for name in ("weights", "lengths"))
        marked = {name: value for name, value in tensors.items() if name.startswith("surrogate.")}
        self.surrogate.load_state_dict({name.removeprefix("surrogate."): value for name, value in marked.items()})


def _flat(model: nn.Module) -> Float[Tensor, " W"]:
    """All weights in one line, as numbers."""
    return parameters_to_vector(model.parameters()).detach().float()


def _mixed(seed: int, step: int) -> int:
    """One seed of two numbers."""
    return int(np.random.SeedSequence([seed % 2**64, step]).generate_state(1, np.uint64)[0] >> np.uint64(1))
