"""Cases of an event log as numbers, in batches: what happened, when, with which attributes, and what came next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recurra.data.batches import Batch, Examples, Order
from recurra.data.events import TIME_FEATURES, Case, time_features
from recurra.data.limits import check_limit
from recurra.errors import DataError, quoted
from recurra.types import Float, Int


@dataclass(frozen=True)
class CaseCode:
    """How cases become numbers, made of training cases. Number 0 of activities and of attributes' values stands for others.

    - `activities`, `values`: the names behind the numbers. `mean`, `scale`: of the features of time; `gap`: mean and scale of
      the logarithm of the time to the next event. Both are empty for a log without times.
    - `least`, `most`: of the features of time in training cases; what lies outside is read as the nearest of them, since a
      network knows nothing of years that it never saw. Empty: it is read as it is.
    """

    activities: list[str]
    values: dict[str, list[str]]
    mean: list[float]
    scale: list[float]
    gap: list[float]
    least: list[float] = field(default_factory=list)
    most: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, cases: Sequence[Case]) -> CaseCode:
        activities = sorted({what for case in cases for what in case.activities})
        if len(activities) < 2:
            raise DataError(f"the log has one activity only, {quoted(activities[0])}: there is nothing to predict.")
        columns = list(cases[0].attributes)
        values = {
            column: ["", *sorted({value for case in cases for value in case.attributes[column]} - {""})]
            for column in columns
        }
        for name, found in (("activity", activities), *values.items()):
            check_limit("vocabulary", len(found), f"the column of the {name:.40}", "Leave it out, or name another.")
        if cases[0].times is None:
            return cls(["", *activities], values, [], [], [])
        features = np.concatenate([time_features(case.times) for case in cases if case.times is not None])
        gaps = [np.log1p(np.diff(case.times)) for case in cases if case.times is not None]
        every = np.concatenate(gaps) if any(len(each) for each in gaps) else np.zeros(1)
        return cls(
            ["", *activities],
            values,
            features.mean(0).tolist(),
            (features.std(0) + 1e-6).tolist(),
            [float(every.mean()), float(every.std() + 1e-6)],
            features.min(0).tolist(),
            features.max(0).tolist(),
        )

    @property
    def end(self) -> int:
        """The number of the end of a case, which is predicted like an activity."""
        return len(self.activities)

    @property
    def has_times(self) -> bool:
        return bool(self.mean)

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))

    def encode(self, case: Case) -> Coded:
        """A case as numbers; it ends after its last event."""
        known = {name: k for k, name in enumerate(self.activities)}
        what = torch.tensor([known.get(name, 0) for name in case.activities])
        columns = []
        for column, names in self.values.items():
            place = {name: k for k, name in enumerate(names)}
            given = case.attributes.get(column, [""] * len(case.activities))
            columns.append(torch.tensor([place.get(value, 0) for value in given]))
        attributes = torch.stack(columns, dim=1) if columns else torch.zeros(len(what), 0, dtype=torch.int64)
        times, gaps = torch.zeros(len(what), 0), torch.zeros(len(what))
        if self.has_times:
            if case.times is None:
                raise DataError(f"case {quoted(case.name)} has no times, but the training log has. Name the column.")
            features = time_features(case.times)
            if self.least:
                features = features.clip(self.least, self.most)
            times = torch.from_numpy((features - self.mean) / self.scale).float()
            log = (np.log1p(np.diff(case.times)) - self.gap[0]) / self.gap[1]
            gaps = torch.from_numpy(np.append(log, 0.0)).float()
        return Coded(what, torch.cat([what[1:], torch.tensor([self.end])]), times, attributes, gaps)

    def seconds(self, gap: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
        """A predicted gap as seconds."""
        return torch.expm1((gap.double() * self.gap[1] + self.gap[0]).clamp(0, 30))


@dataclass(frozen=True)
class Coded:
    """One case: each event's activity, the one after it, features of time, attributes, and the gap to the next event."""

    what: Int[Tensor, " n"]
    following: Int[Tensor, " n"]
    times: Float[Tensor, "n F"]
    attributes: Int[Tensor, "n K"]
    gaps: Float[Tensor, " n"]


@dataclass(frozen=True)
class CaseBatch(Batch):
    """Cases side by side, with zeros past their ends."""

    times: Float[Tensor, "B T F"] = field(default_factory=lambda: torch.zeros(0, 0, TIME_FEATURES))
    attributes: Int[Tensor, "B T K"] = field(default_factory=lambda: torch.zeros(0, 0, 0, dtype=torch.int64))
    gaps: Float[Tensor, "B T"] = field(default_factory=lambda: torch.zeros(0, 0))


class Cases(Examples):
    """Batches of cases."""

    def __init__(self, cases: Sequence[Coded], batch_size: int, **order: Unpack[Order]):
        if not cases:
            raise DataError("Batches of cases were asked for, but there is no case. Give a larger log or share.")
        self.cases = cases
        super().__init__(torch.tensor([len(case.what) for case in cases]), batch_size, **order)

    def _take(self, rows: npt.NDArray[np.int64]) -> CaseBatch:
        share, lengths, width, total = self._deal(rows)
        chosen = [self.cases[k] for k in share.tolist()]
        what, following, times, attributes, gaps = (
            _pad([getattr(case, each.name) for case in chosen], width) for each in fields(Coded)
        )
        return CaseBatch(
            what,
            following,
            lengths,
            fresh=True,
            all_rows=len(rows),
            all_tokens=total,
            times=times,
            attributes=attributes,
            gaps=gaps,
        )


def in_order(cases: Sequence[Coded], size: int = 256) -> Iterator[CaseBatch]:
    """All cases as they come, so many at a time."""
    for start in range(0, len(cases), size):
        some = cases[start : start + size]
        yield Cases(some, len(some), shuffle=False)._take(np.arange(len(some)))


def _pad(parts: list[Tensor], width: int) -> Tensor:
    if not parts:  # a rank without rows
        return torch.zeros(0, width, dtype=torch.int64)
    padded = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)
    return torch.nn.functional.pad(padded, (0, 0) * (padded.ndim - 2) + (0, width - padded.shape[1]))
