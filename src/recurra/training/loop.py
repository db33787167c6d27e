"""The training loop: batches in, events out. It prints nothing; whoever reads the events decides what is shown and kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from recurra.data.batches import Batch, Batches
from recurra.data.transfer import send
from recurra.errors import RunError
from recurra.layers.names import in_another_order
from recurra.runs.checkpoint import Checkpoint, restore_weights
from recurra.training.averaging import Average, read_average
from recurra.training.clipping import clip_gradients
from recurra.training.distributed import Ranks
from recurra.training.events import Event, Finished, Measured, Save, Snapshot, Step, Validated
from recurra.training.feeding import own_inputs, read_feeding
from recurra.training.objectives import OVER_TIME, batch_weights, weighted_nll
from recurra.training.plan import TimePlan
from recurra.training.schedules import SCHEDULES, Plateau, learning_rate
from recurra.training.soundness import LossWatch, are_finite, check_weights
from recurra.training.tree_penalty import TreePenalty
from recurra.training.truncation import Loss, backward, read_truncation
from recurra.types import MOST, State, setting

PATIENCE_WITH_NAN = 5

REPORT_EVERY = 16
"""Steps between two reports on a GPU: only then does the host wait for it."""

TRY = "Try a smaller training.learning_rate or training.clip_norm, or a longer training.warmup."


def _read_whole(name: str) -> Callable[[Any], str | None]:
    """Idle where examples are learned as a whole: there is no way through time to choose."""

    def idle(settings: Any) -> str | None:
        if settings.whole is None or getattr(settings.training, name) == "none":
            return None
        return f"it is for sequences that are read step by step; {settings.whole} are learned whole"

    return idle


def _of_streams(form: str) -> Callable[[Any], str | None]:
    """Idle unless one long text is read in streams, with this form of truncation."""

    def idle(settings: Any) -> str | None:
        if not settings.streams:
            return "it is for one long text in streams"
        given = settings.training.truncation
        return None if given.startswith(form) else f"it is of training.truncation={form}:K, which is {given}"

    return idle


@dataclass(frozen=True)
class Training:
    """How a model is trained: the settings `training.NAME` of every run.

    ```python
    rc.training.Training(steps=100, truncation="every:32", clip_norm=1.0)
    ```
    """

    steps: int = setting(2000, "how many updates to make", low=1)
    batch_size: int = setting(32, "streams, or sequences, of all ranks together", low=1, most=MOST)
    truncation: str = setting(
        "every:128",
        "how far gradients flow back: none, every:K, window:K",
        read=read_truncation,
        idle=_read_whole("truncation"),
    )
    length: int = setting(
        128, "steps of one chunk of streams under window:K; every:K takes K steps", low=1, idle=_of_streams("window")
    )
    optimiser: str = setting("adamw", "sgd, adam or adamw", choices=("sgd", "adam", "adamw"))
    learning_rate: float = setting(3e-3, "at the top of the schedule", above=0)
    momentum: float = setting(
        0.9,
        "of sgd",
        low=0,
        idle=lambda s: (
            None if s.training.optimiser == "sgd" else f"it is of sgd, and training.optimiser={s.training.optimiser}"
        ),
    )
    schedule: str = setting("cosine", "constant, cosine or plateau", choices=SCHEDULES)
    warmup: int = setting(100, "steps over which the learning rate rises from zero", low=0)
    clip_norm: float | None = setting(1.0, "scale gradients down to this norm; none: leave them", above=0)
    clip_value: float | None = setting(None, "cut each number of the gradients to this size; none: leave them", above=0)
    over_time: str = setting(
        "mean", "the loss of a sequence: mean, sum or 1/t", choices=OVER_TIME, idle=_read_whole("over_time")
    )
    l2: float = setting(0.0, "weight decay", low=0)
    l1: float = setting(0.0, "penalty on the sum of absolute weights", low=0)
    tree: float = setting(
        0.0,
        "penalty on the average path length of the decision tree that mimics the predictions",
        low=0,
        idle=lambda s: (
            None if s.classifies_steps else "it is for models that predict a class at each step: tag, events"
        ),
    )
    average: str | None = setting(
        None, "evaluate averaged weights: ema:0.999 (exponential), asgd:1000 (mean from a step on)", read=read_average
    )
    ensemble: int = setting(
        1,
        "networks that are trained side by side; what they predict is the mean of their probabilities",
        low=1,
        high=100,
        added=True,
        idle=lambda s: None if s.ensembles or s.training.ensemble == 1 else "it is for models that classify sequences",
    )
    feeding: str = setting(
        "teacher",
        "what a step reads: teacher (teacher forcing), free (free running), scheduled:0.25 (scheduled sampling)",
        read=read_feeding,
        idle=_read_whole("feeding"),
    )
    reset: float = setting(
        0.05,
        "the chance that a stream's state is reset at a new chunk of every:K, so that it learns to begin",
        low=0,
        high=1,
        idle=_of_streams("every"),
    )
    validate_every: int = setting(200, "steps between evaluations on validation data", low=1)
    save_every: int = setting(200, "steps between checkpoints; what a kill may cost", low=1)
    snapshots: int = setting(
        0,
        "weights to keep on the way, evenly spaced, so that one can watch what forms; 0: none",
        low=0,
        high=1000,
        added=True,
    )
    patience: int | None = setting(None, "stop after this many evaluations without a better one; none: never", low=1)
    stop_at_gradient: float | None = setting(
        None, "stop when the norm of the gradient falls below this; none: never", above=0
    )


OPTIMISERS: dict[str, Callable[[Any, Training], torch.optim.Optimizer]] = {
    "sgd": lambda p, s: torch.optim.SGD(p, lr=s.learning_rate, momentum=s.momentum, weight_decay=s.l2, fused=True),
    "adam": lambda p, s: torch.optim.Adam(p, lr=s.learning_rate, weight_decay=s.l2, fused=True),
    "adamw": lambda p, s: torch.optim.AdamW(p, lr=s.learning_rate, weight_decay=s.l2, fused=True),
}


@dataclass(frozen=True)
class _Pending:
    """A step as the device knows it: nothing of it has been read yet.

    `sound`: whether loss and gradient are numbers; `asked`: how many ranks were asked to stop; `planned`: the stride and the
    spacing of validations that the first rank's time plan asks for.
    """

    step: int
    loss: Tensor
    norm: Tensor
    sound: Tensor
    asked: Tensor
    planned: Tensor
    learning_rate: float
    tokens: int


class Loop(Protocol):
    """A training loop as its readers see it: `Trainer`, or `ClosedForm`."""

    model: Any
    best: float
    skipped: int
    asked_to_stop: str | None
    report_every: int

    @property
    def step(self) -> int:
        """How many steps have been made."""

    @property
    def steps(self) -> int:
        """How many there are to make."""

    @property
    def evaluated(self) -> Any:
        """The model that is evaluated and kept."""

    def events(self) -> Iterator[Event]: ...

    def fit_into(self, seconds: float) -> None:
        """Finish within so many seconds from now."""

    def restore(self, checkpoint: Checkpoint) -> None: ...


Whole = Callable[[Any, Any], Tensor]
"""A model and a batch to a summed loss."""


class Trainer:
    """A model in training: what it has besides its weights, and the events of each step.

    - `evaluate`: the model to its score on validation data; less is better. `None`: the last model is kept.
    - `loss`: predictions, targets and the weight of each step, to what is minimised.
    - `whole`: for models that do not read step by step (of pairs, of trees): the model and a batch to the loss, summed over
      what the batch counts as its tokens. `loss`, truncation and feeding are not used then.
    - `penalty`: on the tree that mimics the model; its gradient is added to that of the loss.
    - `ranks`: the processes that train together; every method is called by all of them.

    A trainer that was restored from a checkpoint goes on bit for bit as if it had never stopped (on a CPU with the same
    number of threads and of ranks; to rounding on another number of ranks).

    On a GPU, steps are told of some at a time (`report_every`), and always before an evaluation or a checkpoint. A step
    whose loss or gradient is not finite changes nothing wherever it is made: the device itself decides.

    ```python
    model = rc.models.LanguageModel(3, rc.Recurrent("gru", 8, 8))
    batches = rc.data.Chunks(torch.tensor([0, 1, 2] * 100), batch_size=2, length=10)
    for event in rc.training.Trainer(model, batches, rc.training.Training(steps=5, length=10), None).events():
        print(event)
    ```
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Batches,
        settings: Training,
        evaluate: Callable[[Any], float] | None,
        *,
        loss: Loss = weighted_nll,
        whole: Whole | None = None,
        penalty: TreePenalty | None = None,
        bfloat16: bool = False,
        ranks: Ranks = Ranks(),
    ):
        self.model: Any = model
        self.batches, self.settings, self.evaluate = batches, settings, evaluate
        self.loss, self.whole, self.bfloat16, self.ranks = loss, whole, bfloat16, ranks
        self.penalty = penalty
        self.truncation, self.feeding = read_truncation(settings.truncation), read_feeding(settings.feeding)
        self.optimiser: Any = OPTIMISERS[settings.optimiser](model.parameters(), settings)
        if settings.optimiser == "sgd" and settings.momentum:
            # a first step that is skipped would leave what torch has allocated for them, unset
            for parameter in model.parameters():
                self.optimiser.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        self.plateau, self.watch, self.has_saved = Plateau(), LossWatch(), False
        average = read_average(settings.average)
        self.average = Average(model, *average) if average is not None else None
        self.step, self.skipped, self.in_a_row = 0, 0, 0
        self.place = (
            0.0  # on the way through the schedule, from 0 to `steps`: the number of steps, unless time is short
        )
        self.stride, self.spacing = 1.0, settings.validate_every
        self.plan: TimePlan | None = None
        self.best, self.since_best = math.inf, 0
        self.state: State | None = None
        self.tail: Tensor | None = None
        self.pending: list[_Pending] = []  # since the last report
        self.report_every = 1 if self._reads_each_step() else REPORT_EVERY
        self.done: str | None = None  # why training has ended for good
        self.asked_to_stop: str | None = None  # set it to end after the step that is running, with a checkpoint
        self.agreed = False  # whether all of several ranks know of that: it takes them one more step
        if ranks.rank:  # masks of dropout differ from rank to rank; what all share is drawn from (seed, step)
            torch.manual_seed(batches.seed + 1_000_003 * ranks.rank)

    def _reads_each_step(self) -> bool:
        """Whether the way on depends on numbers of the last step; on a CPU they cost nothing."""
        return (
            self.device.type != "cuda"
            or self.penalty is not None
            or self.settings.stop_at_gradient is not None
            or self.truncation.form == "window"  # after a step that is skipped, nothing is read again
        )

    @property
    def device(self) -> torch.device:
        first: Tensor = next(self.model.parameters())
        return first.device

    @property
    def steps(self) -> int:
        return self.settings.steps

    @property
    def evaluated(self) -> Any:
        """The model that is evaluated and kept: the averaged one, if there is one."""
        return self.average.model if self.average is not None else self.model

    def events(self) -> Iterator[Event]:
        """Train until `steps`, early stopping, a request to stop, or repeated steps that are not finite end it."""
        settings = self.settings
        kept = [round(settings.steps * k / settings.snapshots) for k in range(1, settings.snapshots + 1)]
        if self.done is not None:
            yield Finished(self.step, self.done)
            return
        while self.place < settings.steps:
            before = self.place
            self.advance(self.batches.next())
            last = self.place >= settings.steps
            validates, saves = (self.place // each > before // each for each in (self.spacing, settings.save_every))
            asked = self.asked_to_stop is not None and self.ranks.world == 1
            snapped = any(before < each <= self.place for each in kept)
            if self.step % self.report_every and not (last or validates or saves or snapped or asked):
                continue
            failed = ""
            for event in self.report():
                yield event
                failed = failed or self.watch.see(event.loss)
                if self.in_a_row >= PATIENCE_WITH_NAN:
                    failed = f"{PATIENCE_WITH_NAN} steps in a row had a loss or gradient that is not finite."
            if self.penalty is not None and self.ranks.is_first and not event.skipped:
                found = self.penalty.follow(self.model, self.step)
                if found:
                    yield Measured(self.step, found)
            if failed:
                yield self._failed(failed)
                return
            is_best = False
            small = settings.stop_at_gradient is not None and event.gradient_norm < settings.stop_at_gradient
            if self.evaluate is not None and (validates or last or small):
                validated = self.validate()
                is_best = validated.is_best
                yield validated
            if small:
                self.done = f"the norm of the gradient fell below {settings.stop_at_gradient}"
            if settings.patience is not None and self.since_best >= settings.patience:
                self.done = f"no better validation in {self.since_best} evaluations"
            stopping = self.done or (self.asked_to_stop if self.agreed or self.ranks.world == 1 else None)
            if (saves or is_best or last or stopping or snapped) and not self._has_sound_weights():
                yield self._failed("the weights are no longer finite.")
                return
            if snapped:
                yield Snapshot(self.step, self.snapshot)
            if saves or is_best or last or stopping:
                self.has_saved = True
                yield Save(self.step, self.checkpoint, is_best)
            if stopping:
                yield Finished(self.step, stopping)
                return
        fitted = f"; the schedule of {settings.steps} was fitted into the time" if self.step < settings.steps else ""
        yield Finished(self.step, f"{self.step} steps made{fitted}")

    def fit_into(self, seconds: float) -> None:
        """Finish the schedule within so many seconds from now, in fewer steps than it has if need be."""
        self.plan = TimePlan(seconds, self.settings.validate_every)

    def _failed(self, why: str) -> Finished:
        kept = "The last good checkpoint is kept." if self.has_saved else "There is no checkpoint yet."
        return Finished(self.step, f"{why} {kept} {TRY}", failed=True)

    def _has_sound_weights(self) -> bool:
        return are_finite((*self.model.parameters(), *self.evaluated.parameters()))

    def update(self, batch: Batch) -> Step:
        """One step of the optimiser, and what it found."""
        self.advance(batch)
        return list(self.report())[-1]

    def advance(self, batch: Batch) -> None:
        """One step of the optimiser. What it found stays on the device until `report`."""
        settings, model = self.settings, self.model
        model.train()
        rate = learning_rate(settings.schedule, self.place, settings.steps, settings.warmup, settings.learning_rate)
        rate *= self.plateau.factor
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        if batch.fresh:
            self.state = self.tail = None
        state = self._start()
        self.optimiser.zero_grad(set_to_none=True)
        total, final, tail = self._backward(batch, state) if self.whole is None else (self._learn(batch), None, None)
        if self.penalty is not None and self.ranks.is_first:  # the sum over ranks has it once
            total = total + self.penalty.add_gradients(model)
        asked = total.new_full((), float(self.asked_to_stop is not None))
        plans = (self.plan.stride, self.plan.spacing) if self.plan is not None and self.ranks.is_first else (0.0, 0.0)
        planned = torch.stack([total.new_full((), value) for value in plans])  # of all ranks: what the first one plans
        total, asked, planned = self.ranks.sum_gradients(list(model.parameters()), total, asked, planned)
        if settings.l1:  # once, after the sum: a rank without rows has no gradients of its own
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad += settings.l1 * parameter.detach().sign()
        norm = clip_gradients(model.parameters(), settings.clip_norm, settings.clip_value).to(total.device)
        sound = torch.isfinite(total) & torch.isfinite(norm)
        self.step += 1
        self.place = min(float(settings.steps), self.place + self.stride)
        self.optimiser.found_inf = (~sound).float()  # torch's fused optimisers leave everything as it is then
        self.optimiser.step()
        if self.average is not None:
            self.average.follow(model, self.place, sound, self.stride)
        self.state, self.tail = final, tail
        tokens = batch.all_tokens or batch.tokens
        self.pending.append(_Pending(self.step, total, norm, sound, asked, planned, rate, tokens))

    def report(self) -> Iterator[Step]:
        """The steps since the last report: here the host waits for the device."""
        made, self.pending = self.pending, []
        rows = [torch.cat([torch.stack([m.loss.double(), m.norm.double(), m.sound, m.asked]), m.planned]) for m in made]
        found = torch.stack(rows).tolist()
        if found[-1][3] > 0:  # if one rank was asked to stop, all are
            self.agreed = True
            self.asked_to_stop = self.asked_to_stop or "another rank was asked to stop"
        if not found[-1][2]:  # a state that may be poisoned is dropped
            self.state = self.tail = None
        left = self.settings.steps - self.place
        if found[-1][4]:
            self.stride, self.spacing = max(1.0, found[-1][4]), max(1, round(found[-1][5]))
        if self.plan is not None:
            self.plan.see(len(made), left)
        planned = self.step + math.ceil(left / self.stride)
        for each, (loss, norm, sound, *_) in zip(made, found, strict=True):
            self.skipped += not sound
            self.in_a_row = 0 if sound else self.in_a_row + 1
            yield Step(each.step, loss, norm, each.learning_rate, each.tokens, skipped=not sound, planned=planned)

    def _backward(self, batch: Batch, state: State | None) -> tuple[Tensor, State | None, Tensor | None]:
        """Gradients of this rank's part; the loss, and what goes over to the next batch: the state, and steps to read again."""
        count = (batch.all_tokens or batch.tokens) if self.settings.over_time == "mean" else batch.all_rows
        batch = batch.to(self.device)
        inputs, targets, lengths = batch.inputs, batch.targets, batch.lengths
        B, T = inputs.shape[:2]
        dtype = self.model.output.weight.dtype
        if B == 0:  # the last sequences of an epoch may be fewer than the ranks
            return torch.zeros((), device=self.device, dtype=dtype), None, None
        weights = batch_weights(batch, self.settings.over_time, self.device, dtype)
        overlap = 0
        if self.truncation.form == "window" and self.truncation.k is not None and lengths is None:
            if (
                self.tail is not None
            ):  # windows reach back over the border: the last steps are read again, without a loss
                inputs, targets = torch.cat([self.tail, inputs], dim=1), torch.cat([self.tail, targets], dim=1)
                weights = torch.cat([torch.zeros_like(weights[:, :1]).expand(B, self.tail.shape[1]), weights], dim=1)
            overlap = min(self.truncation.k, inputs.shape[1])
        share = self.feeding.share(self.place, self.settings.steps)
        if share:
            inputs = own_inputs(self.model, inputs, state, share, read=inputs.shape[1] - T)
        with self._autocast():
            total, final = backward(
                self.model,
                inputs,
                targets,
                weights / (count or B),
                self.truncation,
                self.loss,
                state,
                lengths,
                overlap=overlap,
            )
        tail = inputs[:, inputs.shape[1] - overlap :] if overlap else None
        return total, final if self.batches.carries else None, tail

    def _learn(self, batch: Batch) -> Tensor:
        """Gradients of this rank's part, for a model that reads a batch as a whole; its part of the mean loss."""
        if self.whole is None or batch.tokens == 0:
            return torch.zeros((), device=self.device)
        with self._autocast():
            total = self.whole(self.model, batch.to(self.device)) / (batch.all_tokens or batch.tokens)
        total.backward()
        return total.detach()

    def _start(self) -> State | None:
        """The carried state, reset in some streams: a network that has only ever gone on does not know how to begin."""
        if self.state is None or self.tail is not None or (self.settings.reset == 0 and not self.pending):
            return self.state
        drawn = np.random.default_rng([self.batches.seed % 2**64, self.step]).random(self.batches.batch_size)
        again = send(torch.from_numpy(drawn[self.batches.own_rows] < self.settings.reset), self.device)
        if self.pending:  # a state that may be poisoned is dropped, also before anyone knows of it
            again = again | ~self.pending[-1].sound
        begun: State = self.model.recurrent.reset(self.state, again)
        return begun

    def _autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16) if self.bfloat16 else nullcontext()

    def validate(self) -> Validated:
        assert self.evaluate is not None
        began = time.monotonic()
        value = self.evaluate(self.evaluated)
        if self.plan is not None:
            self.plan.validated(time.monotonic() - began, self.settings.steps)
        is_best = value < self.best
        self.best, self.since_best = (value, 0) if is_best else (self.best, self.since_best + 1)
        if self.settings.schedule == "plateau":
            self.plateau.see(value)
        return Validated(self.step, value, is_best)

    # -- to and from a checkpoint ------------------------------------------------------------------------------------

    def snapshot(self) -> Checkpoint:
        """The weights that are evaluated, which all ranks have."""
        return Checkpoint(self.step, dict(self.evaluated.state_dict()))

    def checkpoint(self) -> Checkpoint:
        """Everything that going on needs, of all ranks. All of them must ask for it together."""
        gather = self.ranks.gather
        tensors: dict[str, Tensor] = {}
        for k, states in enumerate(gather(torch.get_rng_state().to(self.device))):
            tensors[f"random.cpu.{k}"] = states
        if self.device.type == "cuda":
            for k, states in enumerate(gather(torch.cuda.get_rng_state(self.device).to(self.device))):
                tensors[f"random.cuda.{k}"] = states
        scalars: dict[str, dict[str, float]] = {}
        for index, values in self.optimiser.state_dict()["state"].items():
            for name, value in values.items():
                if isinstance(value, Tensor):
                    tensors[f"optimiser.{index}.{name}"] = value
                elif value is not None:
                    scalars.setdefault(str(index), {})[name] = value
        for k, layer in enumerate(self.state or ()):
            for i, value in enumerate(layer[0]):
                tensors[f"state.{k}.{i}"] = torch.cat(gather(value))
        if self.tail is not None:
            tensors["tail"] = torch.cat(gather(self.tail))
        if self.average is not None:
            tensors |= {f"average.{name}": value for name, value in self.average.model.state_dict().items()}
        if self.penalty is not None:
            tensors |= {f"penalty.{name}": value for name, value in self.penalty.state().items()}
        facts = {
            "place": self.place,
            "stream": self.batches.state_dict(),
            "optimiser": scalars,
            "plateau": self.plateau.state(),
            "best": self.best,
            "since_best": self.since_best,
            "skipped": self.skipped,
            "in_a_row": self.in_a_row,
            "done": self.done,
            "watch": self.watch.state(),
        }
        return Checkpoint(self.step, dict(self.model.state_dict()), tensors, facts)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint."""
        facts, tensors = checkpoint.facts, checkpoint.tensors
        kept = {name: value for name, value in tensors.items() if name.startswith(("average.", "optimiser."))}
        check_weights(checkpoint.weights | kept, f"the checkpoint of step {checkpoint.step}")
        moved = in_another_order(self.model.state_dict(), checkpoint.weights)
        if moved:  # weights are loaded by name, but the optimiser's moments have none
            raise RunError(
                f"the checkpoint has the weights of {moved} in another order of lines than the model's cell. To go on from it, "
                "write the lines in the order of then."
            )
        restore_weights(self.model, checkpoint.weights, "the checkpoint")
        if self.average is not None:
            restore_weights(self.average.model, checkpoint.part("average"), "the checkpoint's averaged weights")
        if self.penalty is not None:
            self.penalty.restore(checkpoint.part("penalty"))
        described = self.optimiser.state_dict()
        described["state"] = {int(index): dict(values) for index, values in facts["optimiser"].items()}
        for name, value in tensors.items():
            if name.startswith("optimiser."):
                _, index, key = name.split(".", 2)
                described["state"].setdefault(int(index), {})[key] = value
        self.optimiser.load_state_dict(described)
        self.batches.load_state_dict(facts["stream"])
        self.plateau.restore(facts["plateau"])
        self.watch.restore(facts.get("watch", {}))  # older checkpoints have none
        self.has_saved = True
        self.best, self.since_best = float(facts["best"]), int(facts["since_best"])
        self.skipped, self.in_a_row, self.step = int(facts["skipped"]), int(facts["in_a_row"]), checkpoint.step
        self.place = float(facts.get("place", checkpoint.step))  # older checkpoints have none
        self.done = checkpoint.done
        rows = self.batches.own_rows
        if "state.0.0" in tensors:
            self.state = tuple(
                (tuple(tensors[f"state.{k}.{i}"][rows].to(self.device) for i in range(len(cell.states))),)
                for k, cell in enumerate(self.model.recurrent.cells)
            )
        self.tail = tensors["tail"][rows].to(self.device) if "tail" in tensors else None
        rank = self.ranks.rank
        if f"random.cpu.{rank}" in tensors:  # a rank that was not there then keeps the numbers that it began with
            torch.set_rng_state(tensors[f"random.cpu.{rank}"])
        if self.device.type == "cuda" and f"random.cuda.{rank}" in tensors:
            torch.cuda.set_rng_state(tensors[f"random.cuda.{rank}"], self.device)
