"""Train any module on any batches with the same loop: truncation, carried state, exact resume, ranks."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from recurra.data.batches import Batch, Batches
from recurra.errors import DataError, OptionError
from recurra.runs.checkpoint import Checkpoint
from recurra.training.distributed import Ranks
from recurra.training.events import Step
from recurra.training.loop import Trainer, Training

Loss = Callable[..., Any]
"""`loss(model, batch)` or `loss(model, batch, state)` to the mean loss, or to it and the state to carry."""


def map_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A structure of tuples, lists and dictionaries with every tensor in it changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {name: map_tensors(each, change) for name, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(each, change) for each in value))
    if isinstance(value, list | tuple):
        return type(value)(map_tensors(each, change) for each in value)
    return value


def tensors_of(value: Any) -> list[Tensor]:
    """Every tensor of a structure, in order."""
    found: list[Tensor] = []
    map_tensors(value, lambda tensor: found.append(tensor) or tensor)  # type: ignore[func-returns-value]
    return found


@dataclass(frozen=True)
class GivenBatch(Batch):
    """A batch of the user's own, this rank's rows of it, and whether carried state must be dropped."""

    value: Any = None

    def to(self, device: torch.device) -> Self:
        return type(self)(**vars(self) | {"value": map_tensors(self.value, lambda tensor: tensor.to(device))})


class GivenBatches(Batches):
    """Batches of any iterable: a list, a `DataLoader`, a function that makes a generator. An epoch is one pass over it.

    Random numbers that it draws are a stream of their own, which depends on `(seed, epoch)` alone: after a resume the batches
    of an epoch are made again up to the place that was saved, and are the same. Each rank takes its rows of every batch.
    """

    carries = True

    def __init__(self, source: Iterable[Any] | Callable[[], Iterable[Any]], seed: int = 0, ranks: Ranks = Ranks()):
        super().__init__(1, seed=seed, rank=ranks.rank, world=ranks.world)
        if isinstance(source, Iterator):
            raise OptionError(
                f"batches is {type(source).__name__}, which cannot begin again: epochs and a resume need that. Give a list, a "
                "DataLoader, or the function that makes the iterator (batches=make, not make())."
            )
        if not any(hasattr(source, name) for name in ("__call__", "__iter__", "__getitem__")):
            raise OptionError(f"batches must be an iterable, or a function that makes one; got {source!r:.60}.")
        self.source = source
        self._iterator: Iterator[Any] | None = None
        self._random: Any = None

    @property
    def steps_per_epoch(self) -> int:
        return 2**62  # nobody knows before it has ended

    def next(self) -> Batch:
        fresh = self._iterator is None
        value = self._draw()
        if value is _ENDED:
            if fresh:
                raise DataError("batches gave no batch. Give at least one.")
            self.epoch, self.step, self._iterator, fresh = self.epoch + 1, 0, None, True
            value = self._draw()
            if value is _ENDED:
                raise DataError(
                    "batches gave none when they began again. Let the function make a new iterator each time."
                )
        self.step += 1
        tensors = tensors_of(value)
        rows = len(tensors[0]) if tensors and tensors[0].ndim else 1
        share = torch.from_numpy(np.array_split(np.arange(rows), self.world)[self.rank])
        own = value if self.world == 1 else map_tensors(value, lambda tensor: tensor[share] if tensor.ndim else tensor)
        nothing = torch.zeros(len(share), 1)
        return GivenBatch(nothing, nothing, None, fresh, all_rows=rows, all_tokens=rows, value=own)

    def load_state_dict(self, state: dict[str, int]) -> None:
        super().load_state_dict(state)
        self._iterator = None
        for _ in range(self.step):
            self._draw()

    def _source(self) -> Iterable[Any]:
        return self.source() if callable(self.source) else self.source

    def _draw(self) -> Any:
        """The next batch of this epoch, with its random numbers kept apart from those of the model."""
        with _random_numbers() as (get, put):
            if self._iterator is None:
                torch.manual_seed((self.seed * 1_000_003 + self.epoch) % 2**63)
                random.seed(self.seed * 1_000_003 + self.epoch)
                np.random.seed((self.seed * 1_000_003 + self.epoch) % 2**32)
                self._iterator = iter(self._source())
            else:
                put(self._random)
            value = next(self._iterator, _ENDED)
            self._random = get()
        return value

    def one_pass(self) -> Iterator[Batch]:
        raise OptionError("batches of your own are only trained on.")

    def _batch(self, epoch: int, step: int) -> Batch:
        raise OptionError("batches of your own come in the order of their source alone.")

    def _settings(self) -> dict[str, int]:
        return {"seed": self.seed}


_ENDED = object()


@contextmanager
def _random_numbers() -> Iterator[tuple[Callable[[], Any], Callable[[Any], None]]]:
    """How the states of the global generators are read and set; they are as before at the end."""

    def get() -> Any:
        return torch.get_rng_state(), random.getstate(), np.random.get_state()

    def put(state: Any) -> None:
        torch.set_rng_state(state[0])
        random.setstate(state[1])
        np.random.set_state(state[2])

    before = get()
    try:
        yield get, put
    finally:
        put(before)


class FitTrainer(Trainer):
    """The loop over a module and a loss of the user's own.

    Under `every:K` a batch is cut along its second axis into chunks of K steps: gradients end at the cuts, the state that the
    loss gives back goes on. State goes over to the next batch too, until an epoch ends.
    """

    def __init__(
        self,
        model: nn.Module,
        batches: GivenBatches,
        settings: Training,
        evaluate: Callable[[Any], float] | None,
        given_loss: Loss,
        **options: Any,
    ):
        if not callable(given_loss):
            raise OptionError(f"loss must be a function loss(model, batch); got {given_loss!r:.60}.")
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise OptionError(f"{type(model).__name__} has no parameter to train.")
        super().__init__(model, batches, settings, evaluate, whole=given_loss, **options)
        if self.truncation.form == "window":
            raise OptionError(
                "truncation=window:K needs a model that is read step by step; use none or every:K with fit."
            )
        self.given_loss = given_loss
        self.takes_state = _takes_state(given_loss)
        if self.truncation.form == "every" and not self.takes_state:
            raise OptionError(
                "truncation=every:K cuts batches in time: give a loss(model, batch, state) that returns (loss, state)."
            )
        self.carried: Any = None
        self._rows = 0  # of this rank, in the last batch

    def _learn(self, batch: Batch) -> Tensor:
        if batch.fresh:
            self.carried = None
        total = torch.zeros((), device=self.device)
        if not isinstance(batch, GivenBatch) or len(batch.inputs) == 0:
            return total
        chunks = self._chunks(batch.to(self.device).value)
        self._rows, share = len(batch.inputs), len(batch.inputs) / (batch.all_rows or 1)
        for chunk, part in chunks:
            with self._autocast():
                found = self.given_loss(self.model, chunk, *([self.carried] if self.takes_state else []))
            loss, state = found if self.takes_state and isinstance(found, tuple) and len(found) == 2 else (found, None)
            if not isinstance(loss, Tensor) or loss.ndim or not loss.requires_grad:
                wanted = "a scalar tensor with a gradient" + (", and the state to carry" if self.takes_state else "")
                raise OptionError(f"loss must give {wanted}; got {_described(loss)}.")
            _form(state)  # what no checkpoint can hold is refused now
            (loss * part * share).backward()
            total = total + loss.detach() * part * share
            self.carried = map_tensors(state, Tensor.detach)
        return total

    def _chunks(self, value: Any) -> list[tuple[Any, float]]:
        """The batch in chunks of time, each with its share of the steps."""
        k, tensors = self.truncation.k, tensors_of(value)
        T = max((tensor.shape[1] for tensor in tensors if tensor.ndim > 1), default=1)
        if self.truncation.form != "every" or not k or k >= T:
            return [(value, 1.0)]

        def cut(tensor: Tensor, start: int) -> Tensor:
            return tensor[:, start : start + k] if tensor.ndim > 1 and tensor.shape[1] == T else tensor

        return [
            (map_tensors(value, lambda tensor, start=start: cut(tensor, start)), min(k, T - start) / T)  # type: ignore[misc]
            for start in range(0, T, k)
        ]

    def report(self) -> Iterator[Step]:
        for step in super().report():
            if step.skipped:  # a state that may be poisoned is dropped
                self.carried = None
            yield step

    def checkpoint(self) -> Checkpoint:
        made = super().checkpoint()
        parts = [part for part in self._of_all_ranks() if part[1]]
        made.facts["carried"] = parts[0][2] if parts else _form(self.carried)
        made.facts["carried_axes"] = axes = []
        for k, values in enumerate(zip(*(tensors for _, tensors, _ in parts), strict=True)):
            # the axis of batch rows: nn.LSTM has layers first. A tensor without one is the same on all ranks
            rows = [part[0] for part in parts]
            fitting = (axis for axis in range(values[0].ndim) if [value.shape[axis] for value in values] == rows)
            axes.append(next(fitting, None))
            made.tensors[f"carried.{k}"] = values[0] if axes[-1] is None else torch.cat(values, axes[-1])
        return made

    def _of_all_ranks(self) -> list[tuple[int, list[Tensor], Any]]:
        """Of each rank its rows, the tensors that it carries, and their form; shapes differ where rows do not divide evenly."""
        own = self._rows, [tensor.cpu() for tensor in tensors_of(self.carried)], _form(self.carried)
        if self.ranks.world == 1:
            return [own]
        found: list[Any] = [None] * self.ranks.world
        dist.all_gather_object(found, own)
        return found

    def restore(self, checkpoint: Checkpoint) -> None:
        super().restore(checkpoint)
        parts, axes = checkpoint.part("carried"), checkpoint.facts["carried_axes"]

        def own(value: Tensor, axis: int | None) -> Tensor:
            if axis is not None:
                share = np.array_split(np.arange(value.shape[axis]), self.ranks.world)[self.ranks.rank]
                value = value.index_select(axis, torch.from_numpy(share))
            return value.to(self.device)

        values = (own(parts[str(k)], axis) for k, axis in enumerate(axes))
        self.carried = _filled(checkpoint.facts["carried"], values)


def _takes_state(loss: Loss) -> bool:
    """Whether there is a third argument to be given: one without a default, or called `state`."""
    try:
        arguments = list(inspect.signature(loss).parameters.values())
    except ValueError:  # a function of C has no signature
        return False
    third = [each for each in arguments if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)][2:3]
    return any(each.default is each.empty or each.name == "state" for each in third)


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {list(value.shape)}" + ("" if value.requires_grad else " without one")
    return f"{type(value).__name__}"


def _form(value: Any) -> Any:
    """The form of a structure of tensors, as JSON has it."""
    if isinstance(value, Tensor):
        return "tensor"
    if type(value) is dict and all(isinstance(name, str) for name in value):
        return {"dict": {name: _form(each) for name, each in value.items()}}
    if type(value) in (list, tuple):
        return {type(value).__name__: [_form(each) for each in value]}
    if value is None:
        return None
    raise OptionError(
        f"a state to carry is tensors and None in tuples, lists and dictionaries with texts as keys; got {type(value).__name__}."
    )


def _filled(form: Any, values: Iterator[Tensor]) -> Any:
    if form == "tensor":
        return next(values)
    if form is None:
        return None
    ((kind, parts),) = form.items()
    if kind == "dict":
        return {name: _filled(each, values) for name, each in parts.items()}
    made = [_filled(each, values) for each in parts]
    return tuple(made) if kind == "tuple" else made
