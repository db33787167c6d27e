"""Event logs: what happens next in a case and when, which events were improbable, beside what counting says."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from recurra.analysis.automata.reading import Reading
from recurra.data.cases import CaseBatch, CaseCode, Cases, Coded, in_order
from recurra.data.events import TIME_FEATURES, TIME_NAMES, Case, EventLog, read_log
from recurra.errors import DataError, OptionError
from recurra.models.events import EventModel, Following
from recurra.tasks.event_reading import draw_from, strings_of, usual_vectors
from recurra.tasks.task import SHOWN, Evaluation, Examples, Probe, Question, Recipe, Settings, Task, check_whole
from recurra.training.distributed import Ranks
from recurra.training.evaluation import evaluate_whole, judging
from recurra.training.loop import Trainer, Training
from recurra.training.objectives import batch_weights, weighted_nll
from recurra.training.tree_penalty import Steps
from recurra.types import Float, setting

PREFIXES = (2, 3, 4, 5)
"""Lengths of the beginnings of cases for which accuracy is given apart; the last one stands for all longer ones too."""


@dataclass(frozen=True)
class EventData:
    path: str | None = setting(None, "an event log: CSV or XES, gzip too")
    case: str | None = setting(None, "the column that says which case an event belongs to; none: guessed")
    activity: str | None = setting(None, "the column that says what happened; none: guessed")
    time: str | None = setting(None, "the column that says when; none: guessed, and left out if there is none")
    attributes: str = setting("", "further columns to read as categories, with commas")
    predict: str = setting("", "those of them whose value at the next event is predicted too, with commas")
    valid: float = setting(0.1, "the share of training cases, the last of them, that chooses the model")
    test: float = setting(1 / 3, "the share of cases, the last of the log, that is kept for the evaluation")

    def check(self) -> None:
        if not (0 < self.valid < 1 and 0 <= self.test < 1):
            raise OptionError(f"data.valid={self.valid} and data.test={self.test} must leave something to train on.")
        for column in names_in(self.predict):
            if column not in names_in(self.attributes):
                raise OptionError(
                    f"data.predict={column} must be one of data.attributes, which are {self.attributes or 'none'}. Add it there."
                )


def names_in(text: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


@dataclass(frozen=True)
class EventModelSettings:
    cell: str = setting("lstm", "a name, NAME(option=value), or FILE.py:NAME")
    hidden_size: int = setting(64, "units of each layer")
    layers: int = setting(1, "how many are stacked")
    embedding_size: int = setting(16, "size of the vectors of an activity and of an attribute's value")
    dropout: float = setting(0.5, "variational, between layers and of outputs")

    def check(self) -> None:
        for name in ("hidden_size", "layers", "embedding_size"):
            if getattr(self, name) < 1:
                raise OptionError(f"model.{name} must be at least 1; got {getattr(self, name)}.")


@dataclass(frozen=True)
class EventSettings(Settings):
    says_classes: ClassVar[bool] = True
    data: EventData = field(default_factory=EventData)
    model: EventModelSettings = field(default_factory=EventModelSettings)  # type: ignore[assignment]
    time_weight: float = setting(0.1, "how much the squared error of the time to the next event counts")

    def check(self) -> None:
        super().check()
        check_whole(self.training, "cases")
        if self.time_weight < 0:
            raise OptionError(f"time_weight must not be negative; got {self.time_weight}.")


@dataclass(frozen=True)
class Next:
    """What follows the last event of an open case: activities by probability, seconds until then, and likely attributes."""

    case: str
    probabilities: dict[str, float]
    seconds: float | None
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Flag:
    """An event that the model finds improbable; `number` counts from 1 in its case."""

    case: str
    number: int
    activity: str
    probability: float
    expected: str


class EventTask(Task[EventModel]):
    """A model of an event log."""

    factorisation = "A product of conditionals: P(case) = Π P(event t | events before, their times and attributes)."

    unit = "event"
    verbs = ("evaluate", "predict", "flag", "mimic")

    def __init__(self, recipe: EventSettings, ranks: Ranks = Ranks(), vocabulary: dict[str, Any] | None = None):
        super().__init__(recipe, ranks)
        self._vocabulary = vocabulary

    @cached_property
    def log(self) -> EventLog:
        if self.settings.data.path is None:
            raise OptionError("this recipe reads an event log: give it a file with data.path=FILE.")
        return self.read(self.settings.data.path)

    def read(self, path: str) -> EventLog:
        """A log with the run's columns."""
        data = self.settings.data
        return read_log(
            path, case=data.case, activity=data.activity, time=data.time, attributes=names_in(data.attributes)
        )

    @cached_property
    def parts(self) -> dict[str, list[Case]]:
        """Training, validation and test cases, in the order of the log."""
        cases, data = self.log.cases, self.settings.data
        known = len(cases) - round(data.test * len(cases))
        train = known - max(1, round(data.valid * known))
        if train < 1:
            raise DataError(f"{data.path} has {len(cases)} cases: too few for training, validation and test.")
        return {"train": cases[:train], "valid": cases[train:known], "test": cases[known:]}

    @property
    def held_out(self) -> list[Case]:
        """The test cases; where there are none, those of validation."""
        return self.parts["test"] or self.parts["valid"]

    @cached_property
    def code(self) -> CaseCode:
        if self._vocabulary is not None:
            return CaseCode(**self._vocabulary)
        return CaseCode.of(self.parts["train"])

    @property
    def predicted(self) -> dict[str, int]:
        """The attributes that are predicted, and the number of each among all."""
        columns = list(self.code.values)
        return {column: columns.index(column) for column in names_in(self.settings.data.predict)}

    @property
    def vocabulary(self) -> dict[str, Any]:
        return self.code.to_json()

    @property
    def about_data(self) -> str:
        read = ", ".join(f"{what} from {column!r}" for what, column in self.log.columns.items() if column is not None)
        return f"{len(self.log.cases):,} cases, {self.log.events:,} events ({read})"

    def make_batches(self, cases: list[Case], *, training: bool) -> Cases:
        return Cases(
            [self.code.encode(case) for case in cases],
            self.settings.training.batch_size if training else 256,
            seed=self.settings.seed,
            shuffle=training,
            rank=self.ranks.rank,
            world=self.ranks.world,
        )

    def make_model(self) -> EventModel:
        model: EventModelSettings = self.settings.model
        return EventModel(
            len(self.code.activities),
            [len(names) for names in self.code.values.values()],
            TIME_FEATURES if self.code.has_times else 0,
            model.cell,
            model.hidden_size,
            predicted=list(self.predicted.values()),
            embedding_size=model.embedding_size,
            layers=model.layers,
            dropout=model.dropout,
            engine=self.settings.engine,
        )

    def make_trainer(self, model: EventModel) -> Trainer:
        weight = self.settings.time_weight if self.code.has_times else 0.0
        if not self.code.has_times and self.settings.time_weight != EventSettings().time_weight:
            raise OptionError(
                f"time_weight={self.settings.time_weight} would change nothing here: {self.settings.data.path} has no times. "
                "Leave it out, or name their column with data.time=NAME."
            )

        def learn(model: EventModel, batch: CaseBatch) -> Tensor:
            said = _run(model, batch)
            targets = batch.targets.to(said.logits.device)
            weights = batch_weights(batch, "mean", targets.device, said.logits.dtype)
            loss = weighted_nll(said.logits, targets, weights)
            goes_on = weights * (targets != self.code.end)  # after the last event there is no gap, and nothing else
            for k, logits in zip(self.predicted.values(), said.attributes, strict=True):
                following = batch.attributes[:, 1:, k].to(targets.device)
                loss = loss + weighted_nll(logits[:, :-1], following, goes_on[:, :-1])
            return loss + weight * ((said.gaps - batch.gaps.to(said.gaps)).square() * goes_on).sum()

        valid = self.make_batches(self.parts["valid"], training=False)
        penalty = self.tree_penalty(model)

        def validate(judged: EventModel) -> float:
            nats = evaluate_whole(judged, valid, lambda batch: _run(judged, batch).logits, self.ranks).mean
            return nats if penalty is None else nats + penalty.of(judged)

        return Trainer(
            model,
            self.make_batches(self.parts["train"], training=True),
            self.settings.training,
            validate,
            whole=learn,
            penalty=penalty,
            bfloat16=self.settings.dtype == "bfloat16",
            ranks=self.ranks,
        )

    def following(self, model: EventModel, cases: list[Case]) -> Iterator[tuple[Case, Following]]:
        """Of each case: log-probabilities of what follows each event, with which attributes, and the scaled gap until then."""
        rest = iter(cases)
        for batch in in_order([self.code.encode(case) for case in cases]):
            with judging(model):
                said = _run(model, batch)
            logs, *further = (each.double().log_softmax(-1).cpu() for each in (said.logits, *said.attributes))
            gaps = said.gaps.cpu()
            for k, case in enumerate(islice(rest, len(gaps))):
                n = len(case.activities)
                yield case, Following(logs[k, :n], gaps[k, :n], tuple(each[k, :n] for each in further))

    def evaluate(self, model: EventModel, question: Question) -> Evaluation:
        if question.window is not None or question.dynamic is not None:
            raise OptionError("--window and --dynamic are for language models.")
        if question.data is not None:
            cases, name = self.read(question.data).cases, question.data
        else:
            cases, name = self.held_out, "test" if self.parts["test"] else "validation"
        right: list[tuple[int, bool]] = []
        nats: list[float] = []
        hours: list[float] = []
        guessed: dict[str, list[float]] = defaultdict(list)
        for case, (logs, gaps, further) in self.following(model, cases):
            coded = self.code.encode(case)
            true, said = coded.following, logs.argmax(-1)
            for (column, k), each in zip(self.predicted.items(), further, strict=True):
                guessed[column] += (each.argmax(-1)[1:-1] == coded.attributes[2:, k]).double().tolist()
            for t in range(1, len(true)):  # beginnings of at least two events
                right.append((t + 1, bool(said[t] == true[t])))
                nats.append(-float(logs[t, true[t]]))
            if self.code.has_times and case.times is not None and len(true) > 2:
                waited = torch.from_numpy(np.diff(case.times))[1:]
                hours += ((self.code.seconds(gaps)[1:-1] - waited).abs() / 3600).tolist()
        if not right:
            raise DataError(f"no case of {name} has two events: there is nothing to judge.")
        scores = {self.called: _row(right) | {"nats": float(np.mean(nats))}}
        if hours:
            scores[self.called]["hours off"] = float(np.mean(hours))
        scores[self.called] |= {f"next {column}": float(np.mean(hits)) for column, hits in guessed.items() if hits}
        if question.baselines:
            for called, order in (("bigram", 1), ("most frequent", 0)):
                scores[called] = _row(_counted(self.parts["train"], cases, order))
        return Evaluation(name, len(right), scores)

    def predict(self, model: EventModel, path: str | None, *, most: int = 3) -> list[Next]:
        """What follows in each case of a log, as if all were open."""
        cases = self.held_out if path is None else self.read(path).cases
        names = [*self.code.activities[1:], "(end of case)"]
        found = []
        for case, (logs, gaps, further) in self.following(model, cases):
            likely = logs[-1, 1:].softmax(-1)
            best = likely.topk(min(most, len(names)))
            chances = {names[k]: float(p) for p, k in zip(best.values, best.indices.tolist(), strict=True)}
            wait = float(self.code.seconds(gaps[-1])) if self.code.has_times else None
            attributes = {
                column: self.code.values[column][int(each[-1].argmax())]
                for column, each in zip(self.predicted, further, strict=True)
            }
            found.append(Next(case.name, chances, wait, attributes))
        return found

    def examples(self, model: EventModel) -> Examples:
        rows = []
        for case, one in zip(self.held_out[:SHOWN], self.predict(model, None, most=2), strict=False):
            said = ", ".join(f"{name} {chance:.2f}" for name, chance in one.probabilities.items())
            rows.append((one.case, " → ".join(case.activities[-4:]), said))
        return Examples(("case", "its last events", "what follows"), rows, "predict RUN")

    def threshold(self, model: EventModel, alarms: float) -> float:
        """The probability below which the given share of validation events lie."""
        found = [flag.probability for flag in self._surprises(model, self.parts["valid"])]
        if not found:
            raise DataError("no validation case has two events: say which events to flag with --below.")
        return float(np.quantile(found, alarms))

    def flag(self, model: EventModel, path: str | None, threshold: float) -> list[Flag]:
        """Events whose probability, given those before them in their case, is below a threshold."""
        cases = self.held_out if path is None else self.read(path).cases
        return [flag for flag in self._surprises(model, cases) if flag.probability < threshold]

    def _surprises(self, model: EventModel, cases: list[Case]) -> Iterator[Flag]:
        """Every event but the first of its case, as if it were flagged."""
        names = [*self.code.activities[1:], "(end of case)"]
        for case, (logs, _, _) in self.following(model, cases):
            true = self.code.encode(case).what
            for t in range(1, len(true)):
                expected = names[int(logs[t - 1, 1:].argmax())]
                chance = float(logs[t - 1, true[t]].exp())
                yield Flag(case.name, t + 1, case.activities[t], chance, expected)

    def steps(self, part: str, most: int | None = None) -> Steps:
        """A tree reads which activity an event is, which values its attributes have, and when it was."""
        cases = self.parts[part]
        if most is not None:
            ends = np.cumsum([len(case.activities) for case in cases])
            cases = cases[: max(1, int((ends <= most).sum()))]
        if not cases:
            raise OptionError(f"this run has no {part} part: give it a share of the log.")
        coded = [self.code.encode(case) for case in cases]
        batches = list(in_order(coded))

        def probabilities(model: EventModel) -> Tensor:
            with judging(model):
                logits = [_run(model, batch).logits[_inside(batch)] for batch in batches]
            return torch.cat(logits).double().softmax(-1).cpu()

        names = [(activity or "another activity") for activity in self.code.activities]
        columns, asked = [torch.cat([case.what for case in coded])], [names]
        for k, (attribute, values) in enumerate(self.code.values.items()):
            columns.append(torch.cat([case.attributes[:, k] for case in coded]))
            asked.append([f"{attribute} = {value or 'another'}" for value in values])
        blocks = [torch.nn.functional.one_hot(c, len(a)).double() for c, a in zip(columns, asked, strict=True)]
        features = [name for names in asked for name in names]
        if self.code.has_times:
            times = torch.cat([case.times for case in coded]).double()
            blocks.append(times * times.new_tensor(self.code.scale) + times.new_tensor(self.code.mean))
            features += TIME_NAMES
        return Steps(
            torch.cat(blocks, dim=1).numpy(),
            tuple(features),
            (*names, "(end of case)"),
            torch.cat([case.following for case in coded]),
            probabilities,
        )

    def reading(self, model: EventModel) -> Reading:
        """Activities in, the next one or the end of the case as the class. Strings are cases: of training to build on, of
        validation to choose on, of the test to score on."""

        def name(case: Coded) -> Tensor:
            return case.what - 1  # number 0 stands for activities that training never saw

        parts = self.coded_parts()
        names = self.code.activities[1:]
        x = usual_vectors(model, parts[0], name, len(names))
        return Reading(
            model.recurrent,
            x,
            lambda hidden: model.output(hidden)[..., 1:],
            names,
            [*names, "(end of case)"],
            draw_from([strings_of(part, name) for part in parts]),
            predicts_next=True,
            end=len(names),
            about=self._about_reading(model, x, parts[2]),
        )

    def coded_parts(self) -> list[list[Coded]]:
        """The cases of training, of validation and those held out, as numbers."""
        return [
            [self.code.encode(case) for case in part]
            for part in (self.parts["train"], self.parts["valid"], self.held_out)
        ]

    def _about_reading(self, model: EventModel, x: Float[Tensor, "K D"], cases: list[Coded]) -> str:
        """What is held, and how often the network names what follows in held-out cases as it does where nothing is held."""
        held = ["each feature of time at its median"] if self.code.has_times else []
        held += [f"{column} at its most frequent value" for column in self.code.values]
        if not held:
            return "The network reads activities alone: nothing is held."
        every = torch.cat([x[:1], x])  # events of an activity that training never saw are read as the first one
        alike = steps = 0
        for batch in in_order(cases):
            inside = _inside(batch)
            with judging(model):
                trace = model.recurrent(every[batch.inputs], None, batch.lengths)
                said, usual = _run(model, batch).logits.argmax(-1), model.output(trace.outputs).argmax(-1)
            alike, steps = alike + int((said == usual)[inside].sum()), steps + int(inside.sum())
        return (
            f"An activity is all that the automaton reads. Held for each activity: {', '.join(held)} in the training cases. "
            f"So held, the network names what follows as it does with the true values for {alike / steps:.1%} of "
            f"{steps:,} held-out events."
        )

    def probe(self, model: EventModel, steps: int) -> Probe:
        """The longest cases of the log."""
        longest = sorted(self.parts["train"], key=lambda case: -len(case.activities))[:8]
        batch = self.make_batches(longest, training=False)._take(np.arange(len(longest)))
        with torch.no_grad():
            read = model.embed(batch.inputs, batch.times, batch.attributes)
        return Probe(model.recurrent, read.repeat(1, -(-steps // read.shape[1]), 1))


def _run(model: EventModel, batch: CaseBatch) -> Following:
    device = model.output.weight.device
    assert batch.lengths is not None
    here = batch.to(device)
    said: Following = model(here.inputs, here.times, here.attributes, batch.lengths)
    return said


def _inside(batch: CaseBatch) -> Tensor:
    """Which steps of a batch are true."""
    assert batch.lengths is not None
    return torch.arange(batch.inputs.shape[1]) < batch.lengths[:, None]


def _row(right: list[tuple[int, bool]]) -> dict[str, float]:
    """Accuracy over all beginnings of at least two events, and by their length."""
    row = {"accuracy": float(np.mean([hit for _, hit in right]))}
    for prefix in PREFIXES:
        last = prefix == PREFIXES[-1]
        hits = [hit for length, hit in right if length == prefix or (last and length > prefix)]
        if hits:
            row[f"after {prefix}{' or more' if last else ''}"] = float(np.mean(hits))
    return row


def _counted(train: list[Case], cases: list[Case], order: int) -> list[tuple[int, bool]]:
    """The most frequent follower of the last activity (order 1), or of any (order 0); counted where it is judged, after
    beginnings of at least two events."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for case in train:
        for now, then in zip(case.activities[1:], [*case.activities[2:], ""], strict=False):
            counts[now if order else ""][then] += 1
            counts[""][then] += order  # what to say after an activity that was never seen
    right = []
    for case in cases:
        for t, (now, then) in enumerate(zip(case.activities[1:], [*case.activities[2:], ""], strict=False), start=2):
            likely = counts.get(now if order else "", counts[""]).most_common(1)
            right.append((t, bool(likely) and likely[0][0] == then))
    return right


RECIPES: dict[str, Recipe] = {
    "events": Recipe(
        EventSettings(
            name="events",
            training=Training(
                steps=800,
                batch_size=64,
                truncation="none",
                learning_rate=3e-3,
                l2=0.1,
                average="ema:0.99",
                validate_every=100,
                save_every=250,
            ),
        ),
        "an event log (CSV, XES): the next event of a case and the time to it, and events that should not be there",
    ),
}
