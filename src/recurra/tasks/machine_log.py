"""The washing machine's event log: the next state of each pair of state and trigger, and the noise among the triggers.

The network reads what is seen of the machine (its state by name, or only its output) and the trigger. It says what is seen
next, and how probable each trigger was: one that does nothing in the machine's state is rare there, and is flagged.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from recurra.analysis.automata.finite import Moore
from recurra.analysis.automata.reading import Reading
from recurra.data.cases import Coded, in_order
from recurra.data.events import Case, EventLog
from recurra.data.machine import TRIGGERS, tables
from recurra.data.machine_log import simulate_log, walk
from recurra.errors import DataError, OptionError, choose_from
from recurra.models.events import EventModel
from recurra.tasks.event_reading import draw_from, strings_of, usual_vectors
from recurra.tasks.events import EventData, EventModelSettings, EventSettings, EventTask, inside, run_batch
from recurra.tasks.recipe import recipe
from recurra.tasks.results import Evaluation
from recurra.tasks.task import of_files, of_synthetic
from recurra.training.evaluation import evaluating
from recurra.training.loop import Training
from recurra.training.tree_penalty import Steps
from recurra.types import MOST, setting

TEST = 2**32
"""The seed of the log of the test is this plus the recipe's own."""
LONGEST = 10_000
"""Triggers of a simulated case: every step of training goes through whole cases."""
ALARMS = 0.01
"""The share of triggers that do something which may be flagged in validation cases."""


@dataclass(frozen=True)
class MachineLogData(EventData):
    path: str | None = setting(None, "a log of the machine, as write_log makes it; none: it is simulated")
    case: str | None = setting(None, "the column with the case of an event; none: guessed", idle=of_files)
    activity: str | None = setting("trigger", "the column with the trigger", idle=of_files)
    time: str | None = setting(None, "the column with its time; none: guessed", idle=of_files)
    attributes: str = setting("state", "what is seen of the machine: state or output")
    predict: str = setting("state", "the same: what is seen next is predicted")
    test: float = setting(0.1, "the share of cases that is kept for the evaluation", low=0, below=1)
    cases: int = setting(
        3000, "of the simulated log; those of the test have another seed", low=3, most=MOST, idle=of_synthetic
    )
    length: int = setting(100, "triggers of a case, at most", low=3, most=LONGEST, idle=of_synthetic)
    noise: float = setting(0.1, "share of triggers that do nothing", above=0, below=1, idle=of_synthetic)

    def check(self) -> None:
        if (self.attributes, self.predict) not in (("state", "state"), ("output", "output")):
            raise OptionError(
                f"data.attributes and data.predict must both be state, or both output; got {self.attributes} and {self.predict}."
            )
        super().check()


@dataclass(frozen=True)
class MachineLogSettings(EventSettings):
    data: MachineLogData = field(default_factory=MachineLogData)
    time_weight: float = setting(
        0.1,
        "how much the squared error of the time to the next trigger counts",
        low=0,
        idle=lambda s: "a log that is simulated has no times" if s.data.path is None else None,
    )


@dataclass(frozen=True)
class CasePrediction:
    """Of a case: what is expected to be seen after each trigger but the last, and the probability of each trigger.

    A network predicts nothing before the first, which is taken to be sure.
    """

    following: list[str]
    chances: list[float]


class MachineLogTask(EventTask):
    """A model of the machine's log, scored beside counting and the machine itself."""

    compare = None  # type: ignore[assignment]  # what counts here is the next state and the noise, not the next trigger

    @cached_property
    def log(self) -> EventLog:
        data, seed = self.settings.data, self.settings.seed
        if data.path is not None:
            return self.read(data.path)
        held = round(data.test * data.cases)
        log = simulate_log(data.cases - held, data.length, seed % 2**64, data.noise)
        other = simulate_log(held, data.length, (TEST + seed) % 2**64, data.noise).cases if held else []
        seen = data.attributes  # the other one is not read: hidden states must not be among what is seen
        cases = [replace(case, attributes={seen: case.attributes[seen]}) for case in log.cases + other]
        return replace(log, cases=cases)

    def read(self, path: str) -> EventLog:
        """A log whose triggers are the machine's: what it does at others nobody knows."""
        log = super().read(path)
        for case in log.cases:
            for trigger in case.activities:
                if trigger not in TRIGGERS:
                    raise DataError(
                        f"{path}: the machine has no trigger {trigger!r}, which case {case.name} fires. It has: "
                        f"{', '.join(TRIGGERS)}. For a log of another machine use the recipe events."
                    )
        return log

    def evaluate(self, model: EventModel, data: str | None = None, *, baselines: bool = True) -> Evaluation:
        """Next states, and noise flagged, beside counting pairs and the machine itself."""
        cases, name = self._cases(data)
        seen = self.settings.data.predict
        scores = {self.called: figures(cases, self._predictions(model, cases), self.threshold(model, ALARMS), seen)}
        if baselines:
            counted = Counted(self.parts["train"], seen)
            threshold = between(self.parts["valid"], map(counted.predict, self.parts["valid"]), ALARMS)
            scores["counting pairs"] = figures(cases, map(counted.predict, cases), threshold, seen)
            scores["the machine"] = figures(cases, (true_machine(case, seen) for case in cases), 0.5, seen)
        return Evaluation(name, sum(len(case.activities) for case in cases), scores, self.units)

    def steps(self, part: str, most: int | None = None) -> Steps:
        """A tree mimics what is seen next, from trigger and state: that, not the next trigger, is the machine's doing."""
        found = super().steps(part, most)
        cases = self._most_cases(part, most)
        coded = [self.code.encode(case) for case in cases]
        goes_on = torch.cat([torch.arange(len(case.what)) < len(case.what) - 1 for case in coded])
        targets = torch.cat([torch.cat([case.attributes[1:, 0], case.attributes[:1, 0]]) for case in coded])
        batches = list(in_order(coded))

        def probabilities(model: EventModel) -> Tensor:
            with evaluating(model):
                logits = [run_batch(model, batch).attributes[0][inside(batch)] for batch in batches]
            return torch.cat(logits).double().softmax(-1).cpu()[goes_on]

        names = [name or "another" for name in self.code.values[self.settings.data.predict]]
        return Steps(found.x[goes_on.numpy()], found.features, tuple(names), targets[goes_on], probabilities)

    def threshold(self, model: EventModel, alarms: float) -> float:
        """Between the noise and the other triggers of validation cases: the machine says which is which."""
        return between(self.parts["valid"], self._predictions(model, self.parts["valid"]), alarms)

    def reading(self, model: EventModel) -> Reading:
        """Pairs of what is seen and trigger in, as training cases have them; what is seen next as the class."""
        seen, parts = self.settings.data.predict, self.coded_parts()
        activities, values = self.code.activities, self.code.values[seen]

        def numbers(case: Coded) -> Tensor:
            return case.attributes[:, 0] * len(activities) + case.what

        pairs = torch.cat([numbers(case) for case in parts[0]]).unique()
        place = torch.full((len(values) * len(activities),), -1)
        place[pairs] = torch.arange(len(pairs))

        def name(case: Coded) -> Tensor:
            return place[numbers(case)]

        met = [(values[pair // len(activities)], activities[pair % len(activities)]) for pair in pairs.tolist()]
        return Reading(
            model.recurrent,
            usual_vectors(model, parts[0], name, len(pairs)),
            lambda hidden: model.predicted[0](hidden)[..., 1:],
            [f"{state} · {trigger}" for state, trigger in met],
            values[1:],
            draw_from([strings_of(part, name, cut=True) for part in parts]),
            truth=_pair_machine(met, seen),
            about=f"A token is a pair of {seen} and trigger; the class is the {seen} that the next row meets.",
        )

    def _predictions(self, model: EventModel, cases: list[Case]) -> Iterator[CasePrediction]:
        names = self.code.values[self.settings.data.predict]
        for case, (logs, _, (further,)) in self.following(model, cases):
            chances = logs[:-1].gather(1, self.code.encode(case).what[1:, None])[:, 0].exp()
            yield CasePrediction([names[k] for k in further[:-1].argmax(-1).tolist()], [1.0, *chances.tolist()])


def _pair_machine(pairs: list[tuple[str, str]], seen: str) -> Moore:
    """The machine as something that reads pairs of what is seen of it and a trigger; pairs that it never meets lead nowhere."""
    machines, after, _ = tables()
    shown = [machine.name if seen == "state" else machine.output for machine in machines]
    columns = [TRIGGERS.index(choose_from("trigger", trigger, TRIGGERS)) for _, trigger in pairs]
    rows = [
        tuple(int(after[k, column]) if met == shown[k] else -1 for (met, _), column in zip(pairs, columns, strict=True))
        for k in range(len(machines))
    ]
    return Moore(tuple(f"{met} · {trigger}" for met, trigger in pairs), tuple(rows), tuple(shown)).minimised()


class Counted:
    """What followed most often each pair of what was seen and trigger, and how often each trigger was fired at what was seen."""

    def __init__(self, cases: list[Case], seen: str):
        self.seen = seen
        self.following: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.triggers: dict[str, Counter[str]] = defaultdict(Counter)
        for case in cases:
            met = case.attributes[seen]
            for now, trigger, then in zip(met, case.activities, met[1:], strict=False):
                self.following[now, trigger][then] += 1
            for now, trigger in zip(met, case.activities, strict=True):
                self.triggers[now][trigger] += 1

    def predict(self, case: Case) -> CasePrediction:
        pairs = list(zip(case.attributes[self.seen], case.activities, strict=True))
        likely = [max(self.following[pair], key=self.following[pair].__getitem__, default="") for pair in pairs[:-1]]
        return CasePrediction(
            likely, [self.triggers[now][trigger] / max(1, self.triggers[now].total()) for now, trigger in pairs]
        )


def true_machine(case: Case, seen: str) -> CasePrediction:
    """What the machine itself does, which is told nothing but the triggers."""
    shown = [machine.name if seen == "state" else machine.output for machine in walk(case.activities)]
    return CasePrediction(shown[1:-1], [float(useful) for useful in useful_triggers(case)])


def useful_triggers(case: Case) -> list[bool]:
    """Which triggers do something; the others are noise."""
    machines = walk(case.activities)
    return [after != before for before, after in pairwise(machines)]


def between(cases: list[Case], predicted: Iterable[CasePrediction], alarms: float) -> float:
    """A probability that noise is below and other triggers above, with no more than a share of these below it.

    Where both lie apart, it is in the middle between the two.
    """
    useful = np.array([each for case in cases for each in useful_triggers(case)])
    chances = np.array([each for one in predicted for each in one.chances])
    if useful.all() or not useful.any():
        raise DataError("the validation cases have no noise, or nothing else: there is nothing to tell apart.")
    high = float(np.quantile(chances[useful], alarms / 2))  # half, so that another log keeps to the share too
    low = max((float(each) for each in chances[~useful] if each < high), default=0.0)
    return float(np.sqrt(low * high))


def figures(cases: list[Case], predicted: Iterable[CasePrediction], threshold: float, seen: str) -> dict[str, float]:
    """Shares, where triggers do something: of steps after which what is seen was right, and of pairs of state and trigger for
    which it always was. Then the share of noise that is flagged, and of other triggers."""
    right: list[bool] = []
    flagged: dict[bool, list[bool]] = {True: [], False: []}
    pairs: dict[tuple[str, int, str], bool] = {}
    for case, one in zip(cases, predicted, strict=True):
        useful = useful_triggers(case)
        for does, chance in zip(useful, one.chances, strict=True):
            flagged[does].append(chance < threshold)
        steps = zip(
            walk(case.activities), case.activities, useful, one.following, case.attributes[seen][1:], strict=False
        )
        for machine, trigger, does, guess, true in steps:
            if does:
                right.append(guess == true)
                pair = (*machine.memory, trigger)
                pairs[pair] = pairs.get(pair, True) and guess == true
    if not (right and flagged[False]):
        raise DataError("these cases have no noise, or nothing else: there is nothing to tell apart.")
    return {
        f"next {seen}": float(np.mean(right)),
        "pairs right": float(np.mean(list(pairs.values()))),
        "noise flagged": float(np.mean(flagged[False])),
        "false alarms": float(np.mean(flagged[True])),
    }


def _settings(seen: str) -> MachineLogSettings:
    return MachineLogSettings(
        data=MachineLogData(attributes=seen, predict=seen),
        model=EventModelSettings(cell="gru", hidden_size=64, embedding_size=16, dropout=0.0),
        training=Training(steps=1200, truncation="none", average="ema:0.99", validate_every=200, save_every=400),
    )


@recipe(MachineLogTask)
def washing_machine_log() -> MachineLogSettings:
    """an event log of a washing machine: its next state from state and trigger, and a child's button presses flagged"""
    return _settings("state")


@recipe(MachineLogTask)
def washing_machine_hidden() -> MachineLogSettings:
    """the same where states are hidden: triggers, and what can be seen and heard of the machine"""
    return _settings("output")
