"""Event logs: what happens next in a case and when, which events were improbable, beside what counting predicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from recurra.analysis.automata.reading import Reading
from recurra.data.cases import CaseBatch, CaseCode, Cases, Coded, in_order
from recurra.data.events import TIME_FEATURES, TIME_NAMES, Case, EventLog, read_log
from recurra.errors import DataError, OptionError
from recurra.models.combined import COMBINE
from recurra.models.draws import draw_numbers
from recurra.models.events import EventModel, Following
from recurra.models.markov import Markov, best_markov
from recurra.models.markov_tables import MarkovTables, check_sizes
from recurra.tasks.capabilities import Probe
from recurra.tasks.event_reading import draw_from, strings_of, usual_vectors
from recurra.tasks.recipe import RECIPES, Derived, recipe
from recurra.tasks.results import SHOWN, Comparison, Evaluation, Examples, Flag, Flags, Predictions
from recurra.tasks.task import Settings, StepTask, given_test, given_valid, make_penalty
from recurra.training.evaluation import evaluate_whole, evaluating, fit_share
from recurra.training.loop import Trainer, Training
from recurra.training.objectives import batch_weights, weighted_nll
from recurra.training.tree_penalty import Steps
from recurra.types import DEEPEST, MOST, Float, Int, setting

PREFIXES = (2, 3, 4, 5)
"""Lengths of the beginnings of cases for which accuracy is given apart; the last one stands for all longer ones too."""
END = "(end of case)"
ORDERS = (1, 2, 3, 4, 5)
"""Of Markov models to choose from."""
PASSES, MOST_STEPS, FEW = 10, 8000, 300
"""How often a large log is passed over, in how many steps at most, and which number of cases is small."""


@dataclass(frozen=True)
class EventData:
    path: str | None = setting(None, "an event log: CSV or XES, gzip too")
    valid_path: str | None = setting(None, "a log to validate on; none: a share of data.path", added=True)
    test_path: str | None = setting(None, "a log to test on; none: a share of data.path", added=True)
    case: str | None = setting(None, "the column with the case of an event; none: guessed")
    activity: str | None = setting(None, "the column with what happened; none: guessed")
    time: str | None = setting(None, "the column with its time; none: guessed, and left out if there is none")
    attributes: str = setting("", "further columns to read as categories, with commas")
    predict: str = setting("", "those of them whose value at the next event is predicted too, with commas")
    valid: float = setting(
        0.1,
        "the share of training cases, the last of them, that chooses the model",
        above=0,
        below=1,
        idle=given_valid,
    )
    test: float = setting(
        1 / 3,
        "the share of cases, the last of the log, that is kept for the evaluation",
        low=0,
        below=1,
        idle=given_test,
    )

    def check(self) -> None:
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
    cell: str = setting("lstm", "a name, NAME(option=value), FILE.py:NAME, or FILE.json")
    hidden_size: int = setting(64, "units of each layer", low=1, most=MOST)
    layers: int = setting(1, "how many are stacked", low=1, most=DEEPEST)
    embedding_size: int = setting(
        16, "size of the vectors of an activity and of an attribute's value", low=1, most=MOST
    )
    dropout: float = setting(0.5, "variational, between layers and of outputs")
    combine: str = setting(
        "none",
        "what predicts the next activity: none (the network alone), baseline (mixed with counts), auto (where that is better)",
        choices=COMBINE,
        added=True,
    )


@dataclass(frozen=True)
class EventSettings(Settings):
    whole: ClassVar[str | None] = "cases"
    classifies_steps: ClassVar[bool] = True
    data: EventData = field(default_factory=EventData)
    model: EventModelSettings = field(default_factory=EventModelSettings)
    time_weight: float = setting(0.1, "how much the squared error of the time to the next event counts", low=0)


class EventTask(StepTask[EventModel]):
    """A model of an event log."""

    data_kind = "events"
    keeps: ClassVar[Any] = {
        "activities": [str],
        "values": {str: [str]},
        "mean": [float],
        "scale": [float],
        "gap": [float],
        "least?": [float],
        "most?": [float],
        "markov?": [[int]],
    }
    unit = "event"
    factorisation = "A product of conditionals: P(case) = Π P(event t | events before, their times and attributes)."

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
        """Training, validation and test cases, in the order of the log; or those of the logs given for validation and test."""
        cases, data = self.log.cases, self.settings.data
        own = {
            name: self.read(path).cases
            for name, path in (("valid", data.valid_path), ("test", data.test_path))
            if path is not None
        }
        known = len(cases) - (0 if "test" in own else round(data.test * len(cases)))
        train = known - (0 if "valid" in own else max(1, round(data.valid * known)))
        if train < 1:
            raise DataError(f"{data.path} has {len(cases)} cases: too few for training, validation and test.")
        return {"train": cases[:train], "valid": cases[train:known], "test": cases[known:]} | own

    @property
    def held_out(self) -> list[Case]:
        """The test cases; where there are none, those of validation."""
        return self.parts["test"] or self.parts["valid"]

    @cached_property
    def code(self) -> CaseCode:
        if self.kept is None:
            return CaseCode.of(self.parts["train"])
        made = CaseCode(**{each.name: self.kept[each.name] for each in fields(CaseCode) if each.name in self.kept})
        sizes = [len(made.mean), len(made.scale), len(made.gap)]
        ranges = {len(made.least), len(made.most)}
        if sizes not in ([0, 0, 0], [TIME_FEATURES, TIME_FEATURES, 2]) or ranges not in ({0}, {len(made.mean)}):
            raise DataError(
                f"vocabulary.json scales times by {len(made.mean)} means, which do not fit. Put back a copy of it."
            )
        return made

    @cached_property
    def markov(self) -> Markov:
        """The best of several orders on validation cases."""
        learned, valid = (self._sequences(self.parts[part]) for part in ("train", "valid"))
        return best_markov(learned, valid, self.code.end + 1, ORDERS)

    def _sequences(self, cases: list[Case]) -> list[Int[Tensor, " n"]]:
        """Activities and the end of each case."""
        return [torch.cat([each.what, each.following[-1:]]) for each in map(self.code.encode, cases)]

    @property
    def predicted(self) -> dict[str, int]:
        """The attributes that are predicted, and the number of each among all."""
        columns = list(self.code.values)
        return {column: columns.index(column) for column in names_in(self.settings.data.predict)}

    def make_vocabulary(self) -> dict[str, Any]:
        """How cases become numbers, and how many runs of activities were counted, where the model is combined with them."""
        combines = self.settings.model.combine != "none"
        return self.code.to_json() | ({"markov": self.markov.sizes} if combines else {})

    @property
    def about_data(self) -> str:
        read = ", ".join(f"{what} from {column!r}" for what, column in self.log.columns.items() if column is not None)
        return f"{len(self.log.cases):,} cases, {self.log.events:,} events ({read})"

    def make_batches(self, cases: list[Case], *, training: bool) -> Cases:
        return Cases([self.code.encode(case) for case in cases], **self.batch_options(training=training))

    def make_model(self) -> EventModel:
        values = [len(names) for names in self.code.values.values()]
        times = TIME_FEATURES if self.code.has_times else 0
        layers = self.make_recurrent(self.settings.model.embedding_size * (1 + len(values)) + times)
        sizes = (self.vocabulary or {}).get("markov")
        baseline = None if sizes is None else MarkovTables(check_sizes(sizes), self.code.end + 1)
        predicted = list(self.predicted.values())
        return EventModel(layers, len(self.code.activities), values, times, predicted=predicted, baseline=baseline)

    def make_trainer(self, model: EventModel) -> Trainer:
        settings = self.settings
        weight = settings.time_weight if self.code.has_times else 0.0
        if not self.code.has_times and settings.time_weight != RECIPES[settings.name].settings.time_weight:
            raise OptionError(
                f"time_weight={settings.time_weight} would change nothing here: {settings.data.path} has no times. "
                "Leave it out, or name their column with data.time=NAME."
            )

        def loss(model: EventModel, batch: CaseBatch) -> Tensor:
            predicted = run_batch(model, batch)
            targets = batch.targets.to(predicted.logits.device)
            weights = batch_weights(batch, "mean", targets.device, predicted.logits.dtype)
            total = weighted_nll(predicted.logits, targets, weights)
            goes_on = weights * (targets != self.code.end)  # after the last event there is no gap, and nothing else
            for k, logits in zip(self.predicted.values(), predicted.attributes, strict=True):
                following = batch.attributes[:, 1:, k].to(targets.device)
                total = total + weighted_nll(logits[:, :-1], following, goes_on[:, :-1])
            return total + weight * ((predicted.gaps - batch.gaps.to(predicted.gaps)).square() * goes_on).sum()

        valid = self.make_batches(self.parts["valid"], training=False)
        penalty = make_penalty(self, model)

        if model.baseline is not None:
            model.baseline.fill(self.markov)
            model.share.fill_(1)  # until a validation is sure of the network
        counted: list[Tensor] = []  # log P of the targets by the baseline, which stays the same

        def compared(evaluated: EventModel) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
            assert evaluated.baseline is not None
            for k, batch in enumerate(valid.one_pass()):
                assert isinstance(batch, CaseBatch)
                here, logs = batch.targets[..., None], run_batch(evaluated, batch).logits.double().log_softmax(-1)
                if k == len(counted):
                    followers = evaluated.baseline(batch.inputs.to(logs.device)).cpu()
                    counted.append(followers.gather(-1, here)[..., 0])
                yield logs.cpu().gather(-1, here)[..., 0], counted[k], inside(batch).double()

        def validate(evaluated: EventModel) -> float:
            if evaluated.baseline is None:
                predict = partial(_logits, evaluated)
                nats = evaluate_whole(evaluated, valid, predict, self.ranks).mean
            else:
                with evaluating(evaluated):
                    share, nats = fit_share(compared(evaluated), settings.model.combine, self.ranks)
                for each in (evaluated, model):  # that in training is what a stop before the next validation leaves
                    each.share.fill_(share)
            return nats if penalty is None else nats + penalty.of(evaluated)

        train = self.make_batches(self.parts["train"], training=True)
        return self.train_on(model, train, validate, whole=loss, penalty=penalty)

    def following(
        self, model: EventModel, cases: list[Case], *, alone: bool = False
    ) -> Iterator[tuple[Case, Following]]:
        """Of each case: log-probabilities of what follows each event, with which attributes, and the scaled gap until then; of
        what the run predicts with, or of the network alone."""
        rest = iter(cases)
        for batch in in_order([self.code.encode(case) for case in cases]):
            with evaluating(model):
                predicted = run_batch(model, batch)
                what = batch.inputs.to(predicted.logits.device)
                logs = model.log_probabilities(predicted.logits, what, alone=alone).cpu()
            further = [each.double().log_softmax(-1).cpu() for each in predicted.attributes]
            gaps = predicted.gaps.cpu()
            for k, case in enumerate(islice(rest, len(gaps))):
                n = len(case.activities)
                yield case, Following(logs[k, :n], gaps[k, :n], tuple(each[k, :n] for each in further))

    def _cases(self, data: str | None) -> tuple[list[Case], str]:
        if data is not None:
            return self.read(data).cases, data
        return self.held_out, "test" if self.parts["test"] else "validation"

    def evaluate(self, model: EventModel, data: str | None = None, *, baselines: bool = True) -> Evaluation:
        """Accuracy of the next event by the length of the prefix, nats, and the error of its time, beside counting."""
        cases, name = self._cases(data)
        count = sum(len(case.activities) - 1 for case in cases)
        if not count:
            raise DataError(f"no case of {name} has two events: there is nothing to evaluate.")
        scores = {self.called: self._score(model, cases, alone=True)}
        if model.baseline is not None and model.share:
            counted = f"markov order {model.baseline.order}"
            both = f"{self.called} and {float(model.share):.0%} {counted}" if model.share < 1 else f"{counted} alone"
            scores = {both: self._score(model, cases)} | scores
        if baselines:
            scores |= self._baselines(cases)
        return Evaluation(name, count, scores, self.units)

    def _score(self, model: EventModel, cases: list[Case], *, alone: bool = False) -> dict[str, float]:
        """Beginnings of at least two events count."""
        right: list[tuple[int, bool]] = []
        nats: list[float] = []
        hours: list[float] = []
        guessed: dict[str, list[float]] = defaultdict(list)
        for case, (logs, gaps, further) in self.following(model, cases, alone=alone):
            coded = self.code.encode(case)
            true, best = coded.following, logs.argmax(-1)
            for (column, k), each in zip(self.predicted.items(), further, strict=True):
                guessed[column] += (each.argmax(-1)[1:-1] == coded.attributes[2:, k]).double().tolist()
            for t in range(1, len(true)):
                right.append((t + 1, bool(best[t] == true[t])))
                nats.append(-float(logs[t, true[t]]))
            if self.code.has_times and case.times is not None and len(true) > 2:
                waited = torch.from_numpy(np.diff(case.times))[1:]
                hours += ((self.code.seconds(gaps)[1:-1] - waited).abs() / 3600).tolist()
        row = _row(right) | {"nats": float(np.mean(nats))}
        if hours:
            row["hours off"] = float(np.mean(hours))
        return row | {f"next {column}": float(np.mean(hits)) for column, hits in guessed.items() if hits}

    def _baselines(self, cases: list[Case]) -> dict[str, dict[str, float]]:
        """Counting: the best Markov model, the last activity's most frequent follower, and the most frequent activity."""
        tables = MarkovTables(self.markov.sizes, self.code.end + 1).double().fill(self.markov)
        right, nats = [], []
        for case in map(self.code.encode, cases):
            logs = tables(case.what[None])[0]
            for t in range(1, len(case.what)):
                right.append((t + 1, bool(logs[t].argmax() == case.following[t])))
                nats.append(-float(logs[t, case.following[t]]))
        found = {f"markov order {tables.order}": _row(right) | {"nats": float(np.mean(nats))}}
        for called, order in (("bigram", 1), ("most frequent", 0)):
            found[called] = _row(_counted(self.parts["train"], cases, order))
        return found

    def compare(self, model: EventModel) -> Comparison | None:
        """Accuracy after beginnings of at least two events; none where validation cases have one event each."""
        valid = self.parts["valid"]
        if not any(len(case.activities) > 1 for case in valid):
            return None
        found = {name: row["accuracy"] for name, row in self._baselines(valid).items()}
        alone = self._score(model, valid, alone=True)["accuracy"]
        both = model.baseline is not None and bool(model.share)
        combine = "model.combine=auto, " if model.baseline is None else ""
        return Comparison(
            "accuracy",
            True,
            alone,
            found,
            f"Try {combine}another training.learning_rate, or data.attributes=COLUMN.",
            self._score(model, valid)["accuracy"] if both else None,
        )

    def output_names(self) -> list[str]:
        return [*self._activities(), END]

    def _activities(self) -> list[str]:
        """The activities by name; number 0 stands for those that training never saw."""
        return [name or "another activity" for name in self.code.activities]

    def predict(self, model: EventModel, data: str | None = None, *, most: int = 3) -> Predictions:
        """What follows in each case of a log, as if all were open: activities by probability, seconds until then, attributes."""
        names = self.output_names()[1:]
        found = []
        for case, (logs, gaps, further) in self.following(model, self._cases(data)[0]):
            best = logs[-1, 1:].softmax(-1).topk(min(most, len(names)))
            attributes = {
                column: self.code.values[column][int(each[-1].argmax())]
                for column, each in zip(self.predicted, further, strict=True)
            }
            found.append(
                {
                    "case": case.name,
                    "probabilities": dict(
                        zip([names[k] for k in best.indices.tolist()], best.values.tolist(), strict=True)
                    ),
                    "seconds": float(self.code.seconds(gaps[-1])) if self.code.has_times else None,
                    "attributes": attributes,
                }
            )
        return Predictions(found)

    def examples(self, model: EventModel) -> Examples:
        rows = []
        for case, one in zip(self.held_out[:SHOWN], self.predict(model, most=2).rows, strict=False):
            following = ", ".join(f"{name} {chance:.2f}" for name, chance in one["probabilities"].items())
            rows.append((one["case"], " → ".join(case.activities[-4:]), following))
        return Examples(("case", "its last events", "what follows"), rows, "predict RUN")

    def threshold(self, model: EventModel, alarms: float) -> float:
        """The probability below which the given share of validation events lie."""
        found = [flag.probability for flag in self._surprises(model, self.parts["valid"])]
        if not found:
            raise DataError("no validation case has two events: give the probability below which to flag with --below.")
        return float(np.quantile(found, alarms))

    def flag(
        self, model: EventModel, data: str | None = None, *, below: float | None = None, alarms: float = 0.01
    ) -> Flags:
        """Events less probable, given those before them in their case, than `below`, or than a share of validation events is."""
        threshold = self.threshold(model, alarms) if below is None else below
        found = (flag for flag in self._surprises(model, self._cases(data)[0]) if flag.probability < threshold)
        return Flags(threshold, sorted(found, key=lambda flag: flag.probability))

    def _surprises(self, model: EventModel, cases: list[Case]) -> Iterator[Flag]:
        """Every event but the first of its case, as if it were flagged."""
        names = self.output_names()[1:]
        for case, (logs, _, _) in self.following(model, cases):
            true = self.code.encode(case).what
            for t in range(1, len(true)):
                expected = names[int(logs[t - 1, 1:].argmax())]
                chance = float(logs[t - 1, true[t]].exp())
                yield Flag(case.name, t + 1, case.activities[t], chance, expected)

    def _most_cases(self, part: str, most: int | None) -> list[Case]:
        """The cases of a part, at most so many events."""
        cases = self.parts[part]
        if most is not None:
            ends = np.cumsum([len(case.activities) for case in cases])
            cases = cases[: max(1, int((ends <= most).sum()))]
        if not cases:
            raise OptionError(f"this run has no {part} part: give it a share of the log.")
        return cases

    def steps(self, part: str, most: int | None = None) -> Steps:
        """A tree reads which activity an event is, which values its attributes have, and when it was."""
        cases = self._most_cases(part, most)
        coded = [self.code.encode(case) for case in cases]
        batches = list(in_order(coded))

        def probabilities(model: EventModel) -> Tensor:
            with evaluating(model):
                logits = [run_batch(model, batch).logits[inside(batch)] for batch in batches]
            return torch.cat(logits).double().softmax(-1).cpu()

        names = self._activities()
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
            tuple(self.output_names()),
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
            [*names, END],
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
            steps_inside = inside(batch)
            with evaluating(model):
                trace = model.recurrent(every[batch.inputs], None, batch.lengths)
                true, usual = run_batch(model, batch).logits.argmax(-1), model.output(trace.outputs).argmax(-1)
            alike, steps = alike + int((true == usual)[steps_inside].sum()), steps + int(steps_inside.sum())
        return (
            f"An activity is all that the automaton reads. Held for each activity: {', '.join(held)} in the training cases. "
            f"So held, the network predicts what follows as it does with the true values for {alike / steps:.1%} of "
            f"{steps:,} held-out events."
        )

    @torch.no_grad()
    def probe(self, model: EventModel, steps: int) -> Probe:
        """Cases that the model draws itself; times are the mean ones, and each attribute has the first of its values."""
        random, device = torch.Generator().manual_seed(0), model.output.weight.device
        what = torch.randint(1, len(self.code.activities), (8, 1), generator=random)
        times = torch.zeros(8, 1, TIME_FEATURES if self.code.has_times else 0, device=device)
        first = [min(1, len(names) - 1) for names in self.code.values.values()]
        attributes = torch.tensor(first, dtype=torch.int64, device=device).expand(8, 1, -1)
        state, read = None, []
        for _ in range(steps):
            vector = model.embed(what.to(device), times, attributes)
            trace = model.recurrent(vector, state)
            read.append(vector)
            state = trace.final
            logits = model.output(trace.outputs[:, 0])[:, 1:-1].float().cpu()
            what = 1 + draw_numbers(logits.softmax(-1), random)[:, None]
        return Probe(model.recurrent, torch.cat(read, dim=1))


def run_batch(model: EventModel, batch: CaseBatch) -> Following:
    device = model.output.weight.device
    assert batch.lengths is not None
    here = batch.to(device)
    predicted: Following = model(here.inputs, here.times, here.attributes, batch.lengths)
    return predicted


def _logits(model: EventModel, batch: CaseBatch) -> Tensor:
    return run_batch(model, batch).logits


def inside(batch: CaseBatch) -> Tensor:
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
    """The most frequent follower of the last activity (order 1), or of any (order 0); counted as it is evaluated, after
    beginnings of at least two events."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for case in train:
        for now, then in zip(case.activities[1:], [*case.activities[2:], ""], strict=False):
            counts[now if order else ""][then] += 1
            counts[""][then] += order  # the prediction after an activity that was never seen
    right = []
    for case in cases:
        for t, (now, then) in enumerate(zip(case.activities[1:], [*case.activities[2:], ""], strict=False), start=2):
            likely = counts.get(now if order else "", counts[""]).most_common(1)
            right.append((t, bool(likely) and likely[0][0] == then))
    return right


@recipe(EventTask)
def events() -> EventSettings:
    """an event log (CSV, XES): the next event of a case and the time to it, and events that should not be there"""
    return EventSettings(
        model=EventModelSettings(dropout=0.3, combine="auto"),
        training=Training(
            steps=800,
            batch_size=64,
            truncation="none",
            learning_rate=1e-2,
            l2=0.1,
            average="ema:0.99",
            validate_every=100,
            save_every=250,
        ),
    )


@events.rule
def events_rule(task: EventTask) -> Iterator[Derived]:
    """a large log is passed over ten times; of few cases a network learns slowly and with much dropout"""
    cases = len(task.parts["train"])
    steps = min(MOST_STEPS, PASSES * cases // task.settings.training.batch_size)
    if steps > task.settings.training.steps:
        yield Derived("training.steps", steps, f"{PASSES} passes over {cases:,} cases")
    if cases < FEW:
        yield Derived("model.dropout", 0.5, f"{cases} cases")
        yield Derived("training.learning_rate", 3e-3, f"{cases} cases")
