"""The recipe signal-and-noise: beside the best that is possible, with a tree that reads the inputs by their names."""

from typing import Any

import numpy as np
import pytest
import torch

from recurra.data.signal_noise import FEATURES
from recurra.errors import OptionError
from recurra.tasks.catalogue import RECIPES, find_recipe
from recurra.tasks.mimic import grow, score_tree
from recurra.tasks.settings import override
from recurra.tasks.signal_noise import SignalNoiseTask
from recurra.training.events import Measured

SMALL = [
    "data.sequences=30",
    "data.test=60",
    "data.length=20",
    "training.steps=60",
    "training.warmup=5",
    "engine=eager",
]
SMALL += ["training.learning_rate=0.02", "training.validate_every=20"]


def make(*settings: str) -> SignalNoiseTask:
    made = find_recipe("signal-and-noise").configure([*SMALL, *settings])
    assert isinstance(made, SignalNoiseTask)
    return made


def train(task: Any) -> tuple[Any, list[Any]]:
    trainer = task.trainer()
    events = list(trainer.events())
    return trainer.evaluated, events


def test_scores_lie_between_guessing_and_what_is_possible() -> None:
    task = make()
    model, _ = train(task)
    scores = task.evaluate(model).scores
    assert scores["always 0"]["AUC"] == 0.5
    assert 0.8 < scores["gru-5"]["AUC"] < scores["best of all (Bayes)"]["AUC"]
    assert scores["gru-5"]["nats"] > scores["best of all (Bayes)"]["nats"]
    assert scores["gru-5"]["accuracy"] < scores["best of all (Bayes)"]["accuracy"]


def test_parts_are_apart_and_come_from_the_seed() -> None:
    one, again, other = make(), make(), make("seed=1")
    parts = [np.stack(each.parts.train.sequences) for each in (one, again, other)]
    assert np.array_equal(parts[0], parts[1])
    assert not np.array_equal(parts[0], parts[2])
    assert not np.array_equal(parts[0], np.stack(one.parts.valid.sequences))
    assert len(one.parts.test) == 60


def test_steps_for_a_tree() -> None:
    task = make()
    steps = task.steps("train")
    assert steps.x.shape == (600, 14)
    assert set(np.unique(steps.x)) == {0.0, 1.0}  # as they were made, not as the network reads them
    assert steps.features == FEATURES
    assert len(task.steps("train", 130).x) == 120  # whole sequences
    assert len(task.steps("train", 5).x) == 20  # one at least
    model = task.make_model()
    with torch.no_grad():
        x = torch.from_numpy(np.stack(task.parts.train.sequences)).double()
        x = (x - x.new_tensor(task.encoder.mean)) / x.new_tensor(task.encoder.scale)
        wanted = model(x.float()).softmax(-1).flatten(0, 1)
    assert torch.allclose(steps.probabilities(model).float(), wanted, atol=1e-6)


def test_with_a_penalty_validation_counts_the_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recurra.training.tree_penalty.AROUND", 3)
    task = make("training.tree=0.1")
    trainer = task.trainer()
    assert any(isinstance(event, Measured) for event in trainer.events())
    plain = make().trainer()
    nats = plain.evaluate(trainer.model)
    length = task.steps("train").path_length(trainer.model)
    assert trainer.evaluate(trainer.model) == pytest.approx(nats + 0.1 * length)


def test_reading_the_future_is_refused() -> None:
    with pytest.raises(OptionError, match="future"):
        make("model.bidirectional=true")
    with pytest.raises(OptionError, match=r"data\.test must be at least 1"):
        make("data.test=0")


@pytest.mark.parametrize("name", RECIPES)
def test_the_penalty_is_taken_or_refused_by_every_recipe(name: str) -> None:
    if name in ("tag", "events", "signal-and-noise", "washing-machine-log", "washing-machine-hidden"):
        assert override(find_recipe(name).settings, ["training.tree=0.1"]).training.tree == 0.1
        with pytest.raises(OptionError, match="must not be negative"):
            override(find_recipe(name).settings, ["training.tree=-1"])
    else:
        with pytest.raises(OptionError, match=r"a class at each step|does not exist"):
            override(find_recipe(name).settings, ["training.tree=0.1"])


@pytest.mark.slow
def test_half_the_questions_at_the_same_area() -> None:
    """At most 0.02 less AUC than without a penalty, and paths of half the length. Takes a minute or two."""
    found = []
    for settings in ([], ["training.tree=0.065"]):
        task: Any = find_recipe("signal-and-noise").configure(settings)
        model, events = train(task)
        found.append(score_tree(task.steps("test"), model, grow(task, model)))
        errors = [event.values.get("surrogate_error", 0) for event in events if isinstance(event, Measured)]
    plain, bound = found
    assert bound.score > plain.score - 0.02
    assert 2 * bound.path_length <= plain.path_length
    assert bound.leaves > 1
    assert bound.fidelity > plain.fidelity
    assert max(errors[len(errors) // 2 :]) < 2
