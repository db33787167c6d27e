"""A ridge classifier on convolution kernels: what a network that classifies short series is compared and combined with."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, cross_entropy, one_hot

from recurra.types import Float, Int

WIDTH, HIGH = 9, 3
PATTERNS = tuple(itertools.combinations(range(WIDTH), HIGH))
"""Kernels of nine weights, three of them 2 and the others −1: their sum is 0, so that a level does not pass."""
VIEWS, DILATIONS, BIASES, SUMMARIES = 3, 12, 4, 4
SLOTS = VIEWS * DILATIONS
"""Every view of a series (as it is, standardised by itself, its differences) is read at this many dilations."""
CHOICES = ((1, 1, 1), (1, 1, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
"""Which views are read: what gives series that are left out the highest probability."""
EMPHASIS = 0.05
"""How much the summaries of a series (level, size) count together, where all kernels on a view count 1."""
MOST_SERIES = 2000
"""The weights are found from so many series at most: time grows with the cube of their number."""
MOST_NUMBERS = 4_000_000
"""How many outputs of kernels are in memory at a time."""


class KernelRidge(nn.Module):
    """log P(class) of a series by linear regression on features of fixed convolution kernels.

    A feature is the share of steps at which a kernel's output is above a bias, or its largest output. Kernels and dilations are
    fixed, channels are drawn from a seed, biases are quantiles of training data; what is learned is one linear map (Dempster et
    al. 2020 and 2021, ROCKET and MiniRocket, in a smaller form). Its penalty, and the temperature of the softmax, are those that
    give the series the highest probability when each is left out in turn.

    - `channels`, `classes`: how many there are. `count`: how many series there are to learn from.

    `rows`: the series that it was fitted to; `held_out`: log P(class) of each of them, found without it.

    ```python
    series, labels = torch.randn(8, 30, 2), torch.arange(8) % 2
    ridge = rc.models.KernelRidge(channels=2, classes=2, count=8)
    ridge.fit(series.flatten(0, 1), torch.full((8,), 30), labels)
    ridge(series, torch.full((8,), 30)).exp()                           # [8, 2]
    ```
    """

    dilations: Tensor
    mask: Tensor
    bias: Tensor
    mean: Tensor
    scale: Tensor
    weight: Tensor
    offset: Tensor
    rows: Tensor
    held_out: Tensor

    def __init__(self, channels: int, classes: int, count: int):
        super().__init__()
        K, F, N = len(PATTERNS), SLOTS * len(PATTERNS) * (BIASES + 1) + SUMMARIES * channels, min(count, MOST_SERIES)
        self.count = count
        self.register_buffer("dilations", torch.ones(SLOTS, dtype=torch.int64))
        self.register_buffer("mask", torch.zeros(SLOTS, K, channels))
        self.register_buffer("bias", torch.zeros(SLOTS, K, BIASES))
        self.register_buffer("mean", torch.zeros(F))
        self.register_buffer("scale", torch.ones(F))
        self.register_buffer("weight", torch.zeros(F, classes))
        self.register_buffer("offset", torch.zeros(classes))
        self.register_buffer("rows", torch.arange(N))
        self.register_buffer("held_out", torch.zeros(N, classes))

    def forward(self, inputs: Float[Tensor, "B T D"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B C"]:
        x = inputs.to(self.weight.dtype).transpose(1, 2)
        size = max(1, MOST_NUMBERS // (len(PATTERNS) * x.shape[2]))
        found = [
            self._features(part, known) for part, known in zip(x.split(size), lengths.to(x).split(size), strict=True)
        ]
        return (((torch.cat(found) - self.mean) / self.scale) @ self.weight + self.offset).log_softmax(-1)

    @torch.no_grad()
    def fit(
        self, values: Float[Tensor, "M D"], lengths: Int[Tensor, " N"], targets: Int[Tensor, " N"], seed: int = 0
    ) -> None:
        """Learn from series, all in one line."""
        random = torch.Generator().manual_seed(seed % 2**63)
        if self.count > MOST_SERIES:
            self.rows.copy_(torch.randperm(self.count, generator=random)[:MOST_SERIES].sort().values)
        widest = max(1.0, (float(lengths.float().median()) - 1) / (WIDTH - 1))
        steps = torch.arange(SLOTS) % DILATIONS / (DILATIONS - 1)
        self.dilations.copy_((widest**steps).long())
        self._draw_channels(random)
        series = _series(values, lengths, self.rows)
        some = torch.randperm(len(series), generator=random)[:64].tolist()
        self._find_biases(*_padded([series[k] for k in some], self.weight.dtype))
        order = sorted(range(len(series)), key=lambda k: len(series[k]))
        found = torch.zeros(len(series), len(self.mean), dtype=torch.float64)
        for start in range(0, len(order), 64):
            part = order[start : start + 64]
            x, known = _padded([series[k] for k in part], self.weight.dtype)
            size = max(1, MOST_NUMBERS // (len(PATTERNS) * x.shape[2]))
            features = [self._features(*each) for each in zip(x.split(size), known.split(size), strict=True)]
            found[part] = torch.cat(features).double()
        self._solve(found, targets[self.rows.cpu()])

    def _draw_channels(self, random: torch.Generator) -> None:
        """Which channels a kernel reads: one, or more with a chance that falls with their number."""
        S, K, D = self.mask.shape
        counts = (D + 0.99) ** torch.rand(S, K, generator=random)
        ranks = torch.rand(S, K, D, generator=random).argsort(-1).argsort(-1)
        self.mask.copy_((ranks < counts.floor()[..., None]) / counts.floor().sqrt()[..., None])

    def _outputs(
        self, x: Float[Tensor, "B D T"], lengths: Float[Tensor, " B"]
    ) -> Iterator[tuple[Float[Tensor, "B K T"], Float[Tensor, "B K"]]]:
        """Of all kernels, view by view and dilation by dilation, −∞ where a step does not count, and how many steps do.

        Every other kernel reads zeros past both ends, so that an end is seen; the others stay within the series, where at least
        half of its steps are left then.
        """
        patterns = x.new_full((len(PATTERNS), WIDTH), -1.0)
        patterns.scatter_(1, torch.tensor(PATTERNS, device=x.device), 2.0)
        inside, steps = _inside(x, lengths), torch.arange(x.shape[-1], device=x.device)
        x = torch.where(inside, x, 0)
        differences = torch.cat([x[:, :, 1:] - x[:, :, :-1], torch.zeros_like(x[:, :, :1])], 2)
        views = (x, _standardised(x, lengths), torch.where(_inside(x, lengths - 1), differences, 0))
        for slot, dilation in enumerate(self.dilations.tolist()):
            kernels = patterns[:, None] * self.mask[slot, :, :, None]
            padding = dilation * (WIDTH // 2)
            outputs = conv1d(views[slot // DILATIONS], kernels, padding=padding, dilation=dilation)
            margin = torch.where(lengths >= 4 * padding, padding, 0)[:, None]
            within = ((steps >= margin) & (steps < lengths[:, None] - margin))[:, None]
            counts = lengths.new_empty(len(x), len(PATTERNS))
            for half, known in ((slice(slot % 2, None, 2), inside), (slice(1 - slot % 2, None, 2), within)):
                outputs[:, half].masked_fill_(~known, -math.inf)
                counts[:, half] = known.sum(-1).clamp(min=1).to(counts)
            yield outputs, counts

    def _find_biases(self, x: Float[Tensor, "B D T"], lengths: Float[Tensor, " B"]) -> None:
        """Quantiles, spread evenly over kernels, dilations and views by the golden ratio."""
        shares = (torch.arange(1, 1 + self.bias.numel()) * (math.sqrt(5) - 1) / 2 % 1).view_as(self.bias)
        for slot, (outputs, counts) in enumerate(self._outputs(x, lengths)):
            ordered = outputs.transpose(0, 1).flatten(1).sort(1, descending=True).values
            self.bias[slot] = ordered.gather(1, (shares[slot] * (counts.sum(0)[:, None] - 1)).long())

    def _features(self, x: Float[Tensor, "B D T"], lengths: Float[Tensor, " B"]) -> Float[Tensor, "B F"]:
        found = []
        for slot, (outputs, counts) in enumerate(self._outputs(x, lengths)):
            mark = torch.empty_like(outputs)  # written as numbers at once: sums of booleans take six times as long
            above = [torch.gt(outputs, bias[:, None], out=mark).sum(-1) / counts for bias in self.bias[slot].unbind(-1)]
            found += [*above, outputs.amax(-1).clamp(min=-1e6)]
        inside, count = _inside(x, lengths), lengths.clamp(min=1)[:, None]
        x = torch.where(inside, x, 0)
        level = x.sum(-1) / count
        size = (torch.where(inside, x - level[..., None], 0).square().sum(-1) / count).sqrt()
        steps = torch.where(_inside(x, lengths - 1)[..., 1:], x[..., 1:] - x[..., :-1], 0)
        rough = (steps.square().sum(-1) / count).sqrt()
        return torch.cat([*found, level, size, (size + 1e-3).log(), (rough + 1e-3).log()], -1)

    def _solve(self, features: Float[Tensor, "N F"], targets: Int[Tensor, " N"]) -> None:
        """The weights, in float64 and by way of the products of series, of which there are fewer than features."""
        own = SUMMARIES * self.mask.shape[-1]
        size = (len(self.mean) - own) // VIEWS
        mean, scale = features.mean(0), features.std(0, correction=0)
        scale = torch.where(scale > 1e-7, scale, 1e7) * math.sqrt(size)  # what never changes is left out
        scale[-own:] *= math.sqrt(own / EMPHASIS)
        X, Y = (features - mean) / scale, 2 * one_hot(targets, len(self.offset)).double() - 1
        groups = X.split([size] * VIEWS + [own], 1)
        products = [each @ each.T for each in groups]
        found = [
            _leave_one_out(
                sum(m * product for m, product in zip((*views, 1), products, strict=True)), Y, targets, views
            )
            for views in CHOICES
        ]
        best = min(found, key=lambda each: each.nats)
        parts = [m * group.T @ best.dual for m, group in zip((*best.views, 1), groups, strict=True)]
        for name, value in (("mean", mean), ("scale", scale), ("weight", best.temperature * torch.cat(parts))):
            getattr(self, name).copy_(value)
        self.offset.copy_(best.temperature * Y.mean(0))
        self.held_out.copy_((best.temperature * best.left_out).log_softmax(-1))


class _Fit(NamedTuple):
    """A ridge on some views: the nats of series that are left out, and what it predicts for them."""

    nats: float
    views: tuple[int, ...]
    temperature: float
    dual: Tensor
    left_out: Tensor


def _leave_one_out(products: Any, Y: Tensor, targets: Tensor, views: tuple[int, ...]) -> _Fit:
    """The penalty and the temperature under which series that are left out have the highest probability."""
    N, middle = len(Y), Y.mean(0)
    values, vectors = torch.linalg.eigh(products)
    values, turned = values.clamp(min=0), vectors.T @ (Y - middle)
    best = _Fit(math.inf, views, 1.0, Y, Y)
    for penalty in (N * 10 ** (k / 2) for k in range(-8, 3)):
        kept = values / (values + penalty)
        own = (vectors.square() * kept).sum(1) + 1 / N  # how much of each prediction is its own target
        left_out = Y - (Y - middle - (vectors * kept) @ turned) / (1 - own).clamp(min=1e-10)[:, None]
        for temperature in (2 ** (k / 2) for k in range(-4, 11)):
            nats = float(cross_entropy(temperature * left_out, targets))
            if nats < best.nats:
                best = _Fit(nats, views, temperature, vectors / (values + penalty) @ turned, left_out)
    return best


def _series(values: Tensor, lengths: Tensor, rows: Tensor) -> list[Tensor]:
    parts = values.split(lengths.tolist())
    return [parts[k] for k in rows.tolist()]


def _padded(series: list[Tensor], dtype: torch.dtype) -> tuple[Float[Tensor, "B D T"], Float[Tensor, " B"]]:
    x = nn.utils.rnn.pad_sequence(series, batch_first=True).to(dtype).transpose(1, 2)
    x = x if x.shape[2] else x.new_zeros(*x.shape[:2], 1)
    return x, torch.tensor([len(each) for each in series]).to(dtype)


def _inside(x: Float[Tensor, "B D T"], lengths: Float[Tensor, " B"]) -> Tensor:
    return (torch.arange(x.shape[-1], device=x.device) < lengths[:, None])[:, None]


def _standardised(x: Float[Tensor, "B D T"], lengths: Float[Tensor, " B"]) -> Tensor:
    """Every channel of every series with mean 0 and size 1 of its own; zeros past the end."""
    inside, count = _inside(x, lengths), lengths.clamp(min=1)[:, None, None]
    centred = torch.where(inside, x - torch.where(inside, x, 0).sum(-1, keepdim=True) / count, 0)
    return centred / ((centred.square().sum(-1, keepdim=True) / count).sqrt() + 1e-6)
