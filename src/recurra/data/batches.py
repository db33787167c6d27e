"""The order in which a network sees its data: one long text in streams, sequences of similar length together, or synthetic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recurra.data.transfer import send
from recurra.errors import DataError, OptionError
from recurra.types import Float, Int

SPREAD = 0.05
"""How far from its true length a sequence may be taken to be when those of similar length are put together."""

MIXED = 32
"""And by how many steps: short sequences meet others of every length. A batch of one length pulls the end towards it."""


@dataclass(frozen=True)
class Batch:
    """What a network reads, and what it should output at each step.

    - `inputs`, `targets`: of text, the tokens, and for each the one that follows it.
    - `lengths`: how many steps of each row are true; `None` where all are. Past the end there are zeros.
    - `fresh`: state carried from the batch before must be dropped.
    - `scored`: the weight of each step in the loss; `None`: 1 at every true step.
    - `folds`: which network of an ensemble does not learn from each row; `None`: all learn from all.
    - `all_rows`, `all_tokens`: of all ranks together; `None` where this is all there is.
    """

    inputs: Tensor
    targets: Tensor
    lengths: Int[Tensor, " B"] | None
    fresh: bool
    scored: Float[Tensor, "B T"] | None = None
    all_rows: int | None = None
    all_tokens: int | None = None
    folds: Int[Tensor, " B"] | None = field(default=None, kw_only=True)

    @property
    def tokens(self) -> int:
        """How many targets there are that count."""
        if self.scored is not None:
            return int((self.scored > 0).sum())
        return self.targets.numel() if self.lengths is None else int(self.lengths.sum())

    def to(self, device: torch.device) -> Self:
        """On a device, without waiting for it. Lengths stay: layers check them, and reading them there would wait."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if not each.name.endswith("lengths")}
        sent: dict[str, Any] = {
            name: send(value, device) for name, value in values.items() if isinstance(value, Tensor)
        }
        return replace(self, **sent)


class Order(TypedDict, total=False):
    """The order of batches: `seed` (0), `shuffle` (true), and which `rank` (0) of `world` ranks (1) they are for."""

    seed: int
    shuffle: bool
    rank: int
    world: int


class Batches(ABC):
    """An infinite iterator of batches for training, one pass for evaluation, and a place that can be saved.

    `batch_size` counts the rows of all ranks together. What a rank sees depends on `(seed, epoch)` and on nothing that has
    happened, so that batches put back where they were go on as if they had never stopped.
    """

    carries = False
    """Whether row k of a batch goes on where row k of the batch before stopped."""

    def __init__(self, batch_size: int, *, seed: int = 0, shuffle: bool = True, rank: int = 0, world: int = 1):
        if batch_size < 1:
            raise OptionError(f"batch_size must be at least 1; got {batch_size}.")
        if not 0 <= rank < world:
            raise OptionError(f"rank must be one of 0 to world - 1; got rank={rank}, world={world}.")
        self.batch_size, self.seed, self.shuffle = batch_size, seed, shuffle
        self.rank, self.world = rank, world
        self.epoch = 0
        self.step = 0

    @property
    def own_rows(self) -> slice:
        """Which rows of the batch of all ranks are this one's, where a row keeps its place from batch to batch."""
        size = self.batch_size // self.world
        return slice(self.rank * size, (self.rank + 1) * size)

    @property
    @abstractmethod
    def steps_per_epoch(self) -> int:
        """How many batches an epoch has."""

    @abstractmethod
    def one_pass(self) -> Iterator[Batch]:
        """Every target once, in an order that never changes: for evaluation. The place of `next` is left alone."""

    @abstractmethod
    def _batch(self, epoch: int, step: int) -> Batch: ...

    def _settings(self) -> dict[str, int]:
        """What must be the same for a saved place to mean the same."""
        return {"batch_size": self.batch_size, "seed": self.seed, "shuffle": int(self.shuffle)}

    def next(self) -> Batch:
        """The next batch. After the last one of an epoch comes the first one of the next."""
        if self.step >= self.steps_per_epoch:
            self.epoch, self.step = self.epoch + 1, 0
        batch = self._batch(self.epoch, self.step)
        self.step += 1
        return batch

    def state_dict(self) -> dict[str, int]:
        """The place: how many batches of which epoch have been taken, and of what. It holds for any number of ranks."""
        return {"epoch": self.epoch, "step": self.step, **self._settings()}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from a saved place."""
        settings = self._settings()
        missing = [name for name in ("epoch", "step", *settings) if name not in state]
        if missing:
            raise DataError(f"The saved place in the data has no {', '.join(missing)}. Start the data anew.")
        changed = [name for name, value in settings.items() if state[name] != value]
        if changed:
            then = ", ".join(f"{name}={state[name]}" for name in changed)
            now = ", ".join(f"{name}={settings[name]}" for name in changed)
            raise DataError(
                f"The saved place in the data was taken with {then}, but there is {now} now. "
                "Resume with what was saved, or start the data from its beginning."
            )
        self.epoch, self.step = state["epoch"], state["step"]

    def _random(self, epoch: int) -> np.random.Generator:
        return np.random.default_rng([self.seed % 2**64, epoch])


class Chunks(Batches):
    """One long text, cut into `batch_size` continuous streams that are read side by side, `length` steps at a time.

    Row k of a batch goes on where row k of the batch before stopped, so that state can be carried; the first batch of an
    epoch is fresh. With `shuffle`, each epoch starts at another offset, 0 to length - 1, so that the cuts fall elsewhere.
    Of `world` ranks, each has its own streams, next to each other, and keeps them.

    ```python
    batch = rc.data.Chunks(torch.arange(1000), batch_size=4, length=20).next()
    batch.inputs, batch.targets, batch.fresh                        # [4, 20], [4, 20], True
    ```
    """

    carries = True

    def __init__(self, ids: Int[Tensor, " N"], batch_size: int, length: int, **order: Unpack[Order]):
        super().__init__(batch_size, **order)
        if length < 1:
            raise OptionError(f"length must be at least 1; got {length}.")
        if batch_size % self.world:
            raise OptionError(
                f"batch_size={batch_size} streams cannot be shared evenly by {self.world} ranks. "
                f"Make it a multiple of {self.world}."
            )
        self.ids, self.length = _check_ids(ids), length
        N, chunk = len(ids), batch_size * length
        # every offset leaves room for the same number of steps; a text that has room for one at offset 0 only, has one
        self._steps = max((N - length) // chunk, int(chunk < N)) if self.shuffle else (N - 1) // chunk
        self._offsets = min(length, N - chunk * self._steps) if self.shuffle else 1

    @property
    def steps_per_epoch(self) -> int:
        if self._steps < 1:
            raise DataError(
                f"Training in {self.batch_size} streams of {self.length} steps needs a text of at least "
                f"{self.batch_size * self.length + 1} tokens; this one has {len(self.ids)}. "
                "Give more text, or lower the batch size or the length."
            )
        return self._steps

    def one_pass(self) -> Iterator[Batch]:
        """All N - 1 targets, once each. A stream starts at the last token of the one before; the last batch may be ragged."""
        targets = len(self.ids) - 1
        if targets < 1:
            raise DataError(f"Evaluation needs a text of at least 2 tokens; this one has {len(self.ids)}. Give more.")
        starts = [targets * k // self.batch_size for k in range(self.batch_size + 1)]
        sizes = torch.tensor(starts).diff()
        rows = self.own_rows
        for done in range(0, int(sizes.max()), self.length):
            left = (sizes - done).clamp(0, self.length)
            # the width is that of all streams, not only this rank's, so that ranks agree on it
            inputs, following = windows(self.ids, torch.tensor(starts[:-1])[rows] + done, left[rows], int(left.max()))
            yield Batch(inputs, following, None if bool((left == left[0]).all()) else left[rows], fresh=done == 0)

    def _batch(self, epoch: int, step: int) -> Batch:
        offset = int(self._random(epoch).integers(self._offsets)) if self.shuffle else 0
        stride = (len(self.ids) - 1 - offset) // self.batch_size
        start = offset + self.own_rows.start * stride + step * self.length
        rows = self.own_rows.stop - self.own_rows.start
        window = self.ids.as_strided((rows, self.length + 1), (stride, 1), self.ids.storage_offset() + start)
        inputs, targets, total = window[:, :-1].contiguous(), window[:, 1:].contiguous(), self.batch_size * self.length
        return Batch(inputs, targets, None, fresh=step == 0, all_rows=self.batch_size, all_tokens=total)

    def _settings(self) -> dict[str, int]:
        return {"symbols": len(self.ids), "length": self.length, **super()._settings()}


class Examples(Batches):
    """Many examples, those of similar length together, so that little is padded. Every batch is fresh.

    With `shuffle`, each epoch puts other examples of similar length together, and the batches come in another order. Of
    `world` ranks, each has its share of the rows of every batch, which may be none.

    A subclass makes a batch of rows: `_take`.
    """

    def __init__(self, lengths: Int[Tensor, " N"], batch_size: int, **order: Unpack[Order]):
        super().__init__(batch_size, **order)
        self._lengths = lengths
        self._plan: tuple[int, list[npt.NDArray[np.int64]]] | None = None

    @abstractmethod
    def _take(self, rows: npt.NDArray[np.int64]) -> Batch:
        """This rank's share of some examples, and how many there are of all ranks."""

    def _share(self, rows: npt.NDArray[np.int64]) -> Int[Tensor, " B"]:
        """Those of some rows that are this rank's."""
        return torch.from_numpy(np.array_split(rows, self.world)[self.rank])

    def _deal(self, rows: npt.NDArray[np.int64]) -> tuple[Int[Tensor, " B"], Int[Tensor, " B"], int, int]:
        """This rank's rows and their lengths; the longest and the sum of all ranks', so that they agree on them."""
        share, everyone = self._share(rows), self._lengths[torch.from_numpy(rows)]
        return share, self._lengths[share], int(everyone.max()), int(everyone.sum())

    @property
    def steps_per_epoch(self) -> int:
        return -(-len(self._lengths) // self.batch_size)

    def one_pass(self) -> Iterator[Batch]:
        for rows in _cut(self._by_length(), self.batch_size):
            yield self._take(rows)

    def _batch(self, epoch: int, step: int) -> Batch:
        if self._plan is None or self._plan[0] != epoch:
            self._plan = (epoch, self._arrange(epoch))
        return self._take(self._plan[1][step])

    def _arrange(self, epoch: int) -> list[npt.NDArray[np.int64]]:
        """Which examples make up each batch of an epoch."""
        if not self.shuffle:
            return list(_cut(self._by_length(), self.batch_size))
        random = self._random(epoch)
        # noise on the length, and ties in random order: an example does not always meet the same others
        noise = random.uniform(1 - SPREAD, 1 + SPREAD, len(self._lengths))
        order = np.argsort(self._lengths.numpy() * noise + random.uniform(0, MIXED, len(self._lengths)))
        batches = list(_cut(order, self.batch_size, small=int(random.integers(self.steps_per_epoch))))
        return [batches[k] for k in random.permutation(len(batches))]

    def _by_length(self) -> npt.NDArray[np.int64]:
        return np.argsort(self._lengths.numpy(), kind="stable")

    def _settings(self) -> dict[str, int]:
        return {"examples": len(self._lengths), "steps": int(self._lengths.sum()), **super()._settings()}


class Sequences(Examples):
    """Many sequences of tokens.

    A sequence brings its own start and end: its inputs are all but the last token, its targets all but the first.

    ```python
    batch = rc.data.Sequences([torch.tensor([0, 3, 4, 1]), torch.tensor([0, 3, 1])], batch_size=2).next()
    batch.inputs, batch.lengths
    ```
    """

    def __init__(self, sequences: Sequence[Int[Tensor, " n"]], batch_size: int, **order: Unpack[Order]):
        if not sequences:
            raise DataError("Batches of sequences were asked for, but there is no sequence. Give at least one.")
        short = [k for k, sequence in enumerate(sequences) if sequence.numel() < 2]
        if short:
            raise DataError(
                f"A sequence needs at least 2 tokens, such as its start and its end; number {short[0]} has "
                f"{sequences[short[0]].numel()} ({len(short)} are too short in all). Leave them out."
            )
        self.ids = _check_ids(torch.cat(list(sequences)))
        sizes = torch.tensor([len(sequence) for sequence in sequences])
        self._starts = sizes.cumsum(0) - sizes
        super().__init__(sizes - 1, batch_size, **order)

    def _take(self, rows: npt.NDArray[np.int64]) -> Batch:
        share, lengths, width, total = self._deal(rows)
        inputs, targets = windows(self.ids, self._starts[share], lengths, width)
        return Batch(inputs, targets, lengths, fresh=True, all_rows=len(rows), all_tokens=total)


@dataclass(frozen=True)
class Labelled(Batch):
    """Sequences that have a class each."""

    labels: Int[Tensor, " B"] = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))


class LabelledSequences(Sequences):
    """Sequences of tokens, and the number of each one's class."""

    def __init__(
        self, sequences: Sequence[Int[Tensor, " n"]], labels: Int[Tensor, " N"], batch_size: int, **order: Unpack[Order]
    ):
        super().__init__(sequences, batch_size, **order)
        self.labels = labels

    def _take(self, rows: npt.NDArray[np.int64]) -> Labelled:
        return Labelled(**vars(super()._take(rows)), labels=self.labels[self._share(rows)])


class Generated(Batches):
    """Synthetic sequences, drawn when they are needed: every batch of training is new.

    - `make`: a count and a seed to inputs, targets, and the weight of each step in the loss (`None`: 1 each).
    - `batches`: how many one pass has. Passes of training differ; the one of evaluation never does.
    """

    def __init__(
        self,
        make: Callable[[int, int], tuple[Tensor, Tensor, Tensor | None]],
        batch_size: int,
        batches: int,
        **order: Unpack[Order],
    ):
        super().__init__(batch_size, **order)
        self.make, self._batches = make, batches

    @property
    def steps_per_epoch(self) -> int:
        return self._batches

    def one_pass(self) -> Iterator[Batch]:
        for step in range(self._batches):
            yield self._batch(0, step)

    def _batch(self, epoch: int, step: int) -> Batch:
        # as a key, so that a long seed with a short key is never a short seed with a long one
        place = np.random.SeedSequence(self.seed % 2**64, spawn_key=(epoch, step))
        inputs, targets, scored = self.make(self.batch_size, int(place.generate_state(1)[0]))
        whole = Batch(inputs, targets, None, fresh=True, scored=scored, all_rows=self.batch_size)
        share = torch.from_numpy(np.array_split(np.arange(self.batch_size), self.world)[self.rank])
        scored = None if scored is None else scored[share]
        return replace(whole, inputs=inputs[share], targets=targets[share], scored=scored, all_tokens=whole.tokens)

    def _settings(self) -> dict[str, int]:
        return {"batch_size": self.batch_size, "batches": self._batches, "seed": self.seed}


def _cut(order: npt.NDArray[np.int64], size: int, small: int = -1) -> Iterator[npt.NDArray[np.int64]]:
    """Parts of `size`; where it does not divide, the one that is smaller is number `small` (-1: the last)."""
    parts = -(-len(order) // size)
    sizes = np.full(parts, size)
    sizes[small] -= parts * size - len(order)
    yield from np.split(order, np.cumsum(sizes)[:-1])


def windows(
    ids: Int[Tensor, " N"], starts: Int[Tensor, " B"], lengths: Int[Tensor, " B"], width: int
) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    """Row b is `lengths[b]` tokens from `starts[b]` on, and the tokens that follow each; zeros past the end."""
    steps = torch.arange(width)
    inside = steps < lengths[:, None]
    places = torch.where(inside, starts[:, None] + steps, 0).to(ids.device)
    inside = inside.to(ids.device)
    return torch.where(inside, ids[places], 0), torch.where(inside, ids[(places + 1).clamp(max=len(ids) - 1)], 0)


def _check_ids(ids: Int[Tensor, " N"]) -> Int[Tensor, " N"]:
    if ids.dim() != 1 or ids.is_floating_point() or ids.dtype == torch.bool:
        raise DataError(f"Token ids are whole numbers along one axis; got {list(ids.shape)} of {ids.dtype}.")
    return ids.to(torch.int64).contiguous()
