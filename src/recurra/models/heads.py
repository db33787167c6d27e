"""What a network predicts about numbers that come next: a distribution for each channel, its loss, and draws from it.

| head | predicted of a channel | loss of a step |
|---|---|---|
| `gaussian` | mean and standard deviation | −log p, summed over channels |
| `mixture` | K weights, means and standard deviations | −log p |
| `quantiles` | 13 quantiles, which never cross | twice the mean pinball loss: the CRPS, up to the grid |
| `bernoulli` | the probability of a 1 | −log P |
| `chain` | the same, given the channels before it at the same step too | −log P, still exact |

A target that is missing (NaN) costs nothing. Channels are independent given the past, but for `chain`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from recurra.errors import OptionError, choose_from
from recurra.types import Float

LEVELS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
SMALLEST = 1e-4
"""No standard deviation is smaller: the density of a series without noise would grow without end."""
BISECTIONS = 60
"""Halvings until an interval of a few standard deviations is narrower than the digits of a float64."""


class Head(nn.Module, ABC):
    """What `predicted`, `[…, channels · numbers]`, means for each of some channels."""

    numbers: int
    """How many numbers are predicted of a channel."""
    unit = "nats"
    """What the loss is in."""
    binary = False
    """Whether channels are 0 or 1."""

    def __init__(self, channels: int):
        super().__init__()
        self.channels = channels

    def losses(self, predicted: Float[Tensor, "*N P"], targets: Float[Tensor, "*N C"]) -> Float[Tensor, "*N"]:
        """The loss of each step: the sum over its channels that are known."""
        missing = targets.isnan()
        each = self._losses(predicted.to(targets.dtype), torch.where(missing, 0, targets))
        known: Tensor = torch.where(missing, 0, each).sum(-1)
        return known

    @abstractmethod
    def _losses(self, predicted: Float[Tensor, "*N P"], targets: Float[Tensor, "*N C"]) -> Float[Tensor, "*N C"]: ...

    @abstractmethod
    def draw(self, predicted: Float[Tensor, "*N P"], noise: Float[Tensor, "*N C"]) -> Float[Tensor, "*N C"]:
        """Values, one for each number of `noise`, which is uniform in (0, 1)."""

    def quantiles(self, predicted: Float[Tensor, " P"], levels: Float[Tensor, " L"]) -> Float[Tensor, "L C"]:
        """Of each channel of one step, the value that is not exceeded with each of some probabilities."""
        # a draw is the value at the level that is drawn, where levels rise with values
        return self.draw(predicted.expand(len(levels), -1), levels[:, None].expand(-1, self.channels))

    def around(self, predicted: Float[Tensor, "*N P"], last: Float[Tensor, "*N C"]) -> Float[Tensor, "*N P"]:
        """The same, moved by the last value."""
        raise OptionError("a head that predicts 0 or 1 predicts no change from the last value. Use change=False.")

    def location(self, predicted: Float[Tensor, "*N P"]) -> Float[Tensor, "*N C"]:
        """Where the distribution of each channel is: its mean, or its median."""
        return self._split(predicted)[..., 0]

    def begin(self, bias: Float[Tensor, " P"], scale: Float[Tensor, " C"]) -> None:
        """Set the numbers that are predicted before anything is learned, so that each channel has this standard deviation."""

    def _split(self, predicted: Tensor) -> Float[Tensor, "*N C K"]:
        parts: Tensor = predicted.unflatten(-1, (self.channels, self.numbers))
        return parts


class Gaussian(Head):
    numbers = 2

    def _losses(self, predicted: Tensor, targets: Tensor) -> Tensor:
        mean, scale = self._parts(predicted)
        return _surprise(mean, scale, targets)

    def draw(self, predicted: Tensor, noise: Tensor) -> Tensor:
        mean, scale = self._parts(predicted)
        return mean + scale * _normal(noise).to(mean)

    def around(self, predicted: Tensor, last: Tensor) -> Tensor:
        return _moved(self._split(predicted), last, slice(0, 1))

    def begin(self, bias: Tensor, scale: Tensor) -> None:
        self._split(bias)[..., 1] = (scale - SMALLEST).clamp(min=SMALLEST).expm1().log()

    def _parts(self, predicted: Tensor) -> tuple[Tensor, Tensor]:
        mean, scale = self._split(predicted).unbind(-1)
        return mean, _positive(scale)


class Mixture(Head):
    def __init__(self, channels: int, components: int = 5):
        super().__init__(channels)
        if components < 1:
            raise OptionError(f"a mixture needs at least one component; got {components}.")
        self.components, self.numbers = components, 3 * components

    def _losses(self, predicted: Tensor, targets: Tensor) -> Tensor:
        logits, mean, scale = self._parts(predicted)
        return -(logits.log_softmax(-1) - _surprise(mean, scale, targets[..., None])).logsumexp(-1)

    def draw(self, predicted: Tensor, noise: Tensor) -> Tensor:
        logits, mean, scale = self._parts(predicted)
        shares = logits.double().softmax(-1)
        ends = shares.cumsum(-1)
        chosen = (noise[..., None] >= ends).sum(-1, keepdim=True).clamp(max=self.components - 1)
        share, end, m, s = (each.gather(-1, chosen)[..., 0] for each in (shares, ends, mean, scale))
        # where it falls within its component is uniform again
        within = (1 - (end - noise) / share).clamp(1e-9, 1 - 1e-9)
        return m + s * _normal(within).to(m)

    def quantiles(self, predicted: Tensor, levels: Tensor) -> Tensor:
        """By bisection of the distribution function: components overlap, so that a draw is no quantile."""
        logits, mean, scale = (each.double() for each in self._parts(predicted))
        shares, wanted = logits.softmax(-1), levels.double()[:, None]
        low, high = ((mean + far * scale).amin(-1) if far < 0 else (mean + far * scale).amax(-1) for far in (-9, 9))
        low, high = (each.expand(len(levels), -1) for each in (low, high))
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            below = (shares * torch.special.ndtr((middle[..., None] - mean) / scale)).sum(-1) < wanted
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return (low + high) / 2

    def around(self, predicted: Tensor, last: Tensor) -> Tensor:
        return _moved(self._split(predicted), last, slice(self.components, 2 * self.components))

    def location(self, predicted: Tensor) -> Tensor:
        logits, mean, _ = self._parts(predicted)
        return (logits.softmax(-1) * mean).sum(-1)

    def _parts(self, predicted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits, mean, scale = self._split(predicted).chunk(3, dim=-1)
        apart = torch.linspace(
            -1, 1, self.components, device=predicted.device, dtype=predicted.dtype
        )  # none begins as another
        return logits, mean + apart, _positive(scale)


class Quantiles(Head):
    numbers = len(LEVELS)
    unit = "crps"

    def _losses(self, predicted: Tensor, targets: Tensor) -> Tensor:
        over = targets[..., None] - self.values(predicted)
        levels = over.new_tensor(LEVELS)
        return 2 * torch.maximum(levels * over, (levels - 1) * over).mean(-1)

    def draw(self, predicted: Tensor, noise: Tensor) -> Tensor:
        """Between two quantiles in a line; the outer ones go on as steeply as the next."""
        values, levels = self.values(predicted), noise.new_tensor(LEVELS)
        above = torch.searchsorted(levels, noise.contiguous()).clamp(1, len(LEVELS) - 1)
        low, high = (values.gather(-1, place[..., None])[..., 0] for place in (above - 1, above))
        share = (noise - levels[above - 1]) / (levels[above] - levels[above - 1])
        drawn: Tensor = low + share.to(low) * (high - low)
        return drawn

    def around(self, predicted: Tensor, last: Tensor) -> Tensor:
        return _moved(self._split(predicted), last, slice(0, 1))

    def values(self, predicted: Float[Tensor, "*N P"]) -> Float[Tensor, "*N C L"]:
        """The quantiles of `LEVELS`: the median, and positive steps up and down from it."""
        median, steps = self._split(predicted).split((1, len(LEVELS) - 1), dim=-1)
        summed = torch.cat([torch.zeros_like(median), softplus(steps).cumsum(-1)], dim=-1)
        middle = LEVELS.index(0.5)
        found: Tensor = median + summed - summed[..., middle : middle + 1]
        return found


class Bernoulli(Head):
    numbers = 1
    binary = True

    def _losses(self, predicted: Tensor, targets: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(predicted, targets, reduction="none")

    def draw(self, predicted: Tensor, noise: Tensor) -> Tensor:
        return (noise < self.chances(predicted)).to(predicted.dtype)

    def chances(self, predicted: Float[Tensor, "*N C"]) -> Float[Tensor, "*N C"]:
        """The probability of a 1 in each channel, from its logit."""
        return predicted.double().sigmoid()


class Chain(Bernoulli):
    """P(y) = Π_k P(y_k | y_1 … y_{k−1}, past) with the logits a + L y, L strictly lower triangular: a sigmoid belief network
    (Frey 1998) on top of what the recurrent network predicts. The product is the exact likelihood of a step."""

    def __init__(self, channels: int):
        super().__init__(channels)
        self.links = nn.Parameter(torch.zeros(channels, channels))

    def _losses(self, predicted: Tensor, targets: Tensor) -> Tensor:
        return super()._losses(predicted + targets @ self.links.tril(-1).T, targets)

    def draw(self, predicted: Tensor, noise: Tensor) -> Tensor:
        drawn = torch.zeros_like(predicted)
        for k in range(self.channels):
            logit = predicted[..., k] + drawn[..., :k] @ self.links[k, :k]
            drawn[..., k] = super().draw(logit, noise[..., k])
        return drawn


HEADS = ("gaussian", "mixture", "quantiles", "bernoulli", "chain")


def make_head(name: str, channels: int, components: int = 5) -> Head:
    """A head by its name; `components` are those of a mixture."""
    choose_from("head", name, HEADS)
    if name == "mixture":
        return Mixture(channels, components)
    kinds: dict[str, type[Head]] = {
        "gaussian": Gaussian,
        "quantiles": Quantiles,
        "bernoulli": Bernoulli,
        "chain": Chain,
    }
    return kinds[name](channels)


def _normal(noise: Tensor) -> Tensor:
    """Normal numbers from uniform ones."""
    made: Tensor = torch.special.ndtri(noise)
    return made


def _positive(free: Tensor) -> Tensor:
    return softplus(free) + SMALLEST


def _surprise(mean: Tensor, scale: Tensor, value: Tensor) -> Tensor:
    """−log of the normal density."""
    return 0.5 * ((value - mean) / scale).square() + scale.log() + 0.5 * math.log(2 * math.pi)


def _moved(parts: Float[Tensor, "*N C K"], last: Float[Tensor, "*N C"], which: slice) -> Float[Tensor, "*N P"]:
    moved = torch.zeros_like(parts)
    moved[..., which] = last[..., None].to(parts)
    return (parts + moved).flatten(-2)
