"""Examples of fixed size, each with the class that it belongs to: rows of a table, images, points of a plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recurra.data.batches import Batch, Examples, Order
from recurra.data.limits import check_limit
from recurra.errors import DataError, listed, quoted
from recurra.types import Int


@dataclass(frozen=True, eq=False)
class Labelled:
    """Examples with their classes.

    - `x`: numbers `[N, D]`, or images `[N, C, H, W]`; whole numbers stay as they are until a model reads them.
    - `labels`: for each example the number of its class in `classes`.
    - `columns`: names of the D inputs; none for images.
    - `about`: a few words on where they are from.
    """

    x: Tensor
    labels: Int[Tensor, " N"]
    classes: tuple[str, ...]
    columns: tuple[str, ...] = ()
    about: str = ""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one example: `(D,)` or `(C, H, W)`."""
        return tuple(self.x.shape[1:])

    def take(self, rows: Sequence[int]) -> Labelled:
        chosen = torch.tensor(rows, dtype=torch.int64)
        return replace(self, x=self.x[chosen], labels=self.labels[chosen])


def number_classes(found: Sequence[str], about: str, known: Sequence[str] | None = None) -> tuple[Tensor, list[str]]:
    """The class of each example as a number, and the classes: those that are known, or those found, in order.

    Names that are whole numbers are ordered as numbers.
    """
    empty = next((k for k, name in enumerate(found, 1) if not name.strip()), None)
    if empty is not None:
        raise DataError(f"{about}: example {empty} has no label. Give it one.")
    if known is None:
        classes = sorted(set(found), key=_by_number)
        check_limit("vocabulary", len(classes), about)
        if len(classes) < 2:
            raise DataError(f"{about}: every label is {quoted(found[0])}. A classifier needs at least two classes.")
    else:
        classes = list(known)
        strange = sorted(set(found) - set(classes))
        if strange:
            raise DataError(
                f"{about} has the class {quoted(strange[0])}; the model learned {listed(classes)}. Leave it out."
            )
    place = {name: k for k, name in enumerate(classes)}
    return torch.tensor([place[name] for name in found]), classes


def _by_number(name: str) -> tuple[int, int, str]:
    is_number = name.isdecimal() and len(name) < 1000  # Python refuses to read integers of thousands of digits
    return (0, int(name), name) if is_number else (1, 0, name)


class LabelledBatches(Examples):
    """Batches of examples with one target each: inputs `[B, 1, …]`, targets `[B, 1]`."""

    def __init__(self, examples: Labelled, batch_size: int, **order: Unpack[Order]):
        if not len(examples):
            raise DataError(f"{examples.about or 'the data'}: there is no example. Give at least one.")
        self.examples = examples
        super().__init__(torch.ones(len(examples), dtype=torch.int64), batch_size, **order)

    def _take(self, rows: npt.NDArray[np.int64]) -> Batch:
        share = self._share(rows)
        inputs, targets = self.examples.x[share][:, None], self.examples.labels[share][:, None]
        return Batch(inputs, targets, None, fresh=True, all_rows=len(rows), all_tokens=len(rows))
