"""Averages of the weights: each form by hand, from its text to the trainer, and what cannot be read."""

import pytest
import torch
from torch import Tensor

from recurra.data.batches import Chunks
from recurra.errors import OptionError
from recurra.models.language import LanguageModel
from recurra.training.averaging import Average, read_average
from recurra.training.loop import Trainer, Training
from tests.helpers import make_language_model

V, H = 5, 6


def make_model() -> LanguageModel:
    return make_language_model(V, "gru", H, engine="eager").double()


def weights(model: LanguageModel) -> Tensor:
    """All of them in one line, as they are now."""
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def walk(model: LanguageModel) -> None:
    """A step in a random direction."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn_like(parameter)


class TestEma:
    def test_by_hand(self) -> None:
        model = make_model()
        average = Average(model, "ema", 0.3)
        expected = weights(model)
        for step in range(1, 9):
            walk(model)
            average.follow(model, step)
            decay = min(0.3, step / (step + 10))
            expected = decay * expected + (1 - decay) * weights(model)
            torch.testing.assert_close(weights(average.model), expected, rtol=0, atol=1e-12)

    def test_the_first_weights_are_soon_forgotten(self) -> None:
        model = make_model()
        average = Average(model, "ema", 0.9999)
        with torch.no_grad():
            for parameter in average.model.parameters():
                parameter += 1000
        for step in range(1, 21):
            average.follow(model, step)
        assert float((weights(average.model) - weights(model)).abs().max()) < 1e-2


class TestAsgd:
    @pytest.mark.parametrize("begin", [1, 2, 5])
    def test_the_plain_mean_of_the_weights_from_a_step_on(self, begin: int) -> None:
        model = make_model()
        average = Average(model, "asgd", begin)
        seen: list[Tensor] = []
        for step in range(1, 10):
            walk(model)
            average.follow(model, step)
            seen.append(weights(model))
            expected = torch.stack(seen[begin - 1 :]).mean(0) if step >= begin else seen[-1]
            torch.testing.assert_close(weights(average.model), expected, rtol=0, atol=1e-12)

    def test_the_trainer_counts_its_steps_from_1(self) -> None:
        ids = torch.randint(V, (120,))
        settings = Training(steps=6, batch_size=2, truncation="every:5", warmup=0, average="asgd:4")
        trainer = Trainer(make_model(), Chunks(ids, 2, 5), settings, lambda model: 0.0)
        seen = []
        for _ in range(6):
            trainer.update(trainer.batches.next())
            seen.append(weights(trainer.model))
        assert float((seen[5] - seen[3]).abs().max()) > 1e-4
        torch.testing.assert_close(weights(trainer.evaluated), torch.stack(seen[3:]).mean(0), rtol=0, atol=1e-12)


def test_the_model_itself_is_not_touched() -> None:
    model = make_model()
    before = weights(model)
    average = Average(model, "ema", 0.5)
    walk(average.model)
    average.follow(model, 1)
    assert torch.equal(weights(model), before)


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, None), ("ema:0.999", ("ema", 0.999)), (" ema:.5 ", ("ema", 0.5)), ("asgd:1000", ("asgd", 1000.0))],
)
def test_the_text_form(text: str | None, expected: tuple[str, float] | None) -> None:
    assert read_average(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ema", "ema:0.999, asgd:1000 or none"),
        ("ema:", "cannot be read"),
        ("ema:often", "cannot be read"),
        ("ema:0.9.9", "cannot be read"),
        ("ema:.", "cannot be read"),
        ("ema:-0.5", "cannot be read"),
        ("ema:1", "between 0 and 1"),
        ("ema:0.0", "between 0 and 1"),
        ("asgd:2.5", "whole number"),
        ("agsd:10", "Did you mean 'asgd'"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, words: str) -> None:
    with pytest.raises(OptionError, match="training.average.*" + words):
        read_average(text)
