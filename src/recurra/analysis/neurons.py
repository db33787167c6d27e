"""Single units that follow something in what they read: found on one part of the data, scored on another, beside controls.

The score of a unit is its correlation with the label, with the sign that it had where it was chosen: 1 is a unit that is a
copy of the label, 0 one that knows nothing of it. The best of a thousand units looks good by luck alone; therefore

- the unit is chosen on one part of the data and scored on another;
- the same search is run for the same labels, shifted against the data (which keeps how slowly they change);
- the same search is run in the same network before training (`Finding.untrained`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from recurra.errors import OptionError, ShapeError
from recurra.layers.recurrent import Recurrent
from recurra.metrics.roc_auc import auc
from recurra.types import Float, Int

SHIFTS, PROBE_SHIFTS = 20, 3
MARGIN = 0.1
"""A unit follows a label if its score is better than both controls by this."""


@dataclass(frozen=True, order=True)
class Unit:
    """One unit of a state or gate; as text `LAYER.NAME.INDEX`, e.g. `0.c.17` (`0r.c.17` in a layer that reads from the end).

    ```python
    str(rc.analysis.Unit(0, False, "c", 17))                        # 0.c.17
    ```
    """

    layer: int
    is_reverse: bool
    name: str
    index: int

    def __str__(self) -> str:
        return f"{self.layer}{'r' if self.is_reverse else ''}.{self.name}.{self.index}"


def read_unit(text: str, recurrent: Recurrent) -> Unit:
    """A unit by its name, if the network has it."""
    found = re.fullmatch(r"(\d+)(r?)\.(\w+)\.(\d+)", text)
    cells, sizes = recurrent.cells, recurrent.hidden_sizes
    k = min(int(found[1]), len(cells) - 1) if found else 0
    names = [*cells[k].states, *cells[k].graph.gates]
    if found:
        unit = Unit(int(found[1]), bool(found[2]), found[3], int(found[4]))
        if (
            unit.layer == k
            and unit.is_reverse <= recurrent.bidirectional
            and unit.name in names
            and unit.index < sizes[k]
        ):
            return unit
    raise OptionError(
        f"there is no unit {text!r}. A unit is LAYER.NAME.INDEX, with layers 0 to {len(recurrent.stack) - 1}, names "
        f"{', '.join(names)} and indices 0 to {sizes[k] - 1}, e.g. {k}.{names[0]}.0."
    )


@dataclass(frozen=True, eq=False)
class Activity:
    """The value of every unit of every state and gate at every position that was read, sequence after sequence."""

    units: list[Unit]
    values: Float[Tensor, "N U"]

    def of(self, unit: Unit) -> Float[Tensor, " N"]:
        return self.values[:, self.units.index(unit)]


@torch.no_grad()
def record_activity(
    recurrent: Recurrent, x: Float[Tensor, "B T D"], lengths: Int[Tensor, " B"] | None = None, *, gates: bool = True
) -> Activity:
    """Let a network read some sequences, and keep every state and, with `gates`, every gate.

    ```python
    activity = rc.analysis.record_activity(rc.Recurrent("lstm", 3, 8), torch.randn(2, 50, 3))
    activity.values.shape                       # [100, 48]: h, c and four gates of eight units
    ```
    """
    training = recurrent.training
    recurrent.eval()
    try:
        trace = recurrent(x, lengths=lengths, record=True)
    finally:
        recurrent.train(training)
    assert trace.record is not None
    inside = torch.ones(x.shape[:2], dtype=torch.bool)
    if lengths is not None:
        inside = torch.arange(x.shape[1]) < lengths.cpu()[:, None]
    units, values = [], []
    for k, layer in enumerate(trace.record):
        for d, direction in enumerate(layer):
            for name, each in direction.items():
                if not gates and name not in recurrent.cells[k].states:
                    continue
                units += [Unit(k, bool(d), name, index) for index in range(each.shape[-1])]
                values.append(each.cpu().float()[inside])
    return Activity(units, torch.cat(values, dim=-1))


@dataclass(frozen=True)
class Hit:
    """A unit and its score on data that it was not chosen by; `auc` where the label is a yes or no.

    ROC AUC: how often the unit is larger (in the direction of `sign`) at a yes than at a no.
    """

    unit: Unit
    score: float
    sign: int
    auc: float | None


@dataclass(frozen=True)
class SparseProbe:
    """A weighted sum of a few units, chosen one after the other, and its score on other data."""

    units: tuple[Unit, ...]
    score: float


@dataclass(frozen=True)
class Found:
    """The best units for a label, a probe of a few, and the best scores that the same searches reach for shifted labels."""

    hits: list[Hit]
    probe: SparseProbe
    by_chance: float
    probe_by_chance: float


@dataclass(frozen=True)
class Finding:
    """What was found in a trained network, and by the same search before training."""

    label: str
    trained: Found
    untrained: Found

    @property
    def best(self) -> Hit:
        return self.trained.hits[0]

    @property
    def control(self) -> float:
        """The better of both controls."""
        return max(self.trained.by_chance, self.untrained.hits[0].score)

    @property
    def is_found(self) -> bool:
        """Whether one unit follows the label: clearly better than what luck and an untrained network give."""
        return self.best.score >= self.control + MARGIN

    def __str__(self) -> str:
        found = f"unit {self.best.unit} follows it" if self.is_found else "no single unit follows it"
        return (
            f"{self.label}: {found} (correlation {self.best.score:.2f} on held-out text; shifted labels "
            f"{self.trained.by_chance:.2f}, untrained network {self.untrained.hits[0].score:.2f})"
        )


def search(
    chosen_on: Activity,
    labels: Mapping[str, Float[Tensor, " N"]],
    scored_on: Activity,
    true: Mapping[str, Float[Tensor, " M"]],
    *,
    top: int = 5,
    probe_size: int = 5,
    seed: int = 0,
) -> dict[str, Found]:
    """For each label the units that follow it best where they are chosen, with their scores where they are not.

    - `labels`, `true`: by name, a number for each position of either part. Every label must vary in both.
    - `top`: how many units. `probe_size`: how many a probe may use.

    ```python
    layer, x = rc.Recurrent("gru", 3, 8), torch.randn(2, 200, 3)
    here, there = (rc.analysis.record_activity(layer, x[k : k + 1]) for k in range(2))
    rc.analysis.search(here, {"first": x[0, :, 0]}, there, {"first": x[1, :, 0]})["first"].hits[0].unit
    ```
    """
    for activity, given in ((chosen_on, labels), (scored_on, true)):
        for name, values in given.items():
            _check_label(name, values, len(activity.values))
    scale = _Scale(chosen_on.values)
    A, B = scale(chosen_on.values), scale(scored_on.values)
    B_own = _standard(scored_on.values)
    random = torch.Generator().manual_seed(seed)
    shifts = [0.0, *(0.1 + 0.8 * torch.rand(SHIFTS, generator=random)).tolist()]
    here, there = (
        torch.stack([_shifted(part[name], share) for name in labels for share in shifts], dim=1)
        for part in (labels, true)
    )  # [N, labels · shifts]
    every = (len(labels), len(shifts))
    chosen, scored = A.T @ here / len(A), B_own.T @ there / len(B)
    best = chosen.abs().argmax(0)[None]
    by_unit = (scored.gather(0, best) * chosen.gather(0, best).sign())[0].view(every)
    probed = (torch.arange(len(labels))[:, None] * len(shifts) + torch.arange(1 + PROBE_SHIFTS)).flatten()
    taken, weights = _probes(A, here[:, probed], probe_size)
    by_probe = (_standard(torch.einsum("mks,ks->mk", B[:, taken], weights)) * there[:, probed]).mean(0)
    by_probe = by_probe.view(len(labels), 1 + PROBE_SHIFTS)
    found = {}
    for k, name in enumerate(labels):
        column = k * len(shifts)
        is_binary = bool(((true[name] == 0) | (true[name] == 1)).all())
        hits = []
        for unit in chosen[:, column].abs().topk(min(top, len(chosen))).indices.tolist():
            sign = 1 if chosen[unit, column] >= 0 else -1
            area = auc(sign * scored_on.values[:, unit], true[name].long()) if is_binary else None
            hits.append(Hit(chosen_on.units[unit], sign * float(scored[unit, column]), sign, area))
        units = tuple(chosen_on.units[unit] for unit in taken[k * (1 + PROBE_SHIFTS)].tolist())
        probe = SparseProbe(units, float(by_probe[k, 0]))
        found[name] = Found(hits, probe, float(by_unit[k, 1:].max()), float(by_probe[k, 1:].max()))
    return found


def _check_label(name: str, values: Tensor, size: int) -> None:
    if values.shape != (size,):
        raise ShapeError(f"{name}: one value for each of {size} positions is needed; got {list(values.shape)}.")
    if not bool((values != values[:1]).any()):
        raise ShapeError(f"{name} is the same everywhere and cannot be followed; give data in which it changes.")


class _Scale:
    """Values as deviations from the mean in units of their spread; of units that never change, zeros."""

    def __init__(self, values: Float[Tensor, "N U"]):
        self.mean, self.spread = values.mean(0), values.std(0, correction=0)
        self.spread = torch.where(self.spread > 1e-6, self.spread, torch.inf)

    def __call__(self, values: Float[Tensor, "N U"]) -> Float[Tensor, "N U"]:
        return (values - self.mean) / self.spread


def _standard(values: Tensor) -> Tensor:
    values = values.float()
    return _Scale(values)(values)


def _shifted(labels: Float[Tensor, " N"], share: float) -> Float[Tensor, " N"]:
    """The labels, standardised, moved on by a share of their number; what falls off the end comes first."""
    return _standard(labels).roll(max(1, round(share * len(labels))) if share else 0)


def _probes(
    A: Float[Tensor, "N U"], labels: Float[Tensor, "N K"], size: int
) -> tuple[Int[Tensor, "K S"], Float[Tensor, "K S"]]:
    """For each label, units one after the other, each the best for what those before it leave over; and their weights.

    Orthogonal matching pursuit, Pati et al. 1993.
    """
    K = labels.shape[1]
    taken, weights, rest = torch.zeros(K, 0, dtype=torch.int64), labels.new_zeros(K, 0), labels
    for _ in range(min(size, A.shape[1])):
        fit = (A.T @ rest).abs().scatter_(0, taken.T, -1.0)
        taken = torch.cat([taken, fit.argmax(0)[:, None]], dim=1)
        some = A[:, taken].permute(1, 2, 0)  # [K, S, N]
        products = torch.linalg.pinv(some @ some.mT, hermitian=True)
        weights = (products @ (some @ labels.T[..., None]))[..., 0]
        rest = labels - (weights[:, None] @ some)[:, 0].T
    return taken, weights
