"""A network while it reads."""

import math

import pytest
import torch

import recurra as rc
from recurra.analysis.neurons import Unit
from recurra.analysis.through_time import ablate_text, watch, watch_reading
from recurra.analysis.unit_study import read_texts
from recurra.data.tokenizers import build_tokenizer
from recurra.errors import OptionError

TEXT = "abba cab. bac"


@pytest.fixture
def model() -> rc.models.LanguageModel:
    return rc.models.LanguageModel(tokenizer().size, rc.Recurrent("lstm", 6, 5, layers=2, dropout=0.5))


def tokenizer():
    return build_tokenizer("char", [TEXT])


def names() -> list[str]:
    made = tokenizer()
    return [made.decode([k]) for k in range(made.size)]


def test_values_are_those_of_the_record() -> None:
    layer, x = rc.Recurrent("gru", 3, 4, layers=2, bidirectional=True), torch.randn(2, 9, 3)
    found = watch(layer, x)
    record = layer(x[:1], record=True).record
    assert set(found.values) == {f"{k}{r}.{name}" for k in (0, 1) for r in ("", "r") for name in ("h", "z", "r", "n")}
    assert torch.equal(found.of("1r.z"), record[1][1]["z"][0])
    with pytest.raises(OptionError, match=r"0\.c"):
        found.of("0.c")


def test_predictions_are_those_of_the_model(model: rc.models.LanguageModel) -> None:
    """Dropout is off, and the model is in the mode that it was in."""
    reading = read_texts(tokenizer(), [TEXT])
    model.train()
    found = watch_reading(model, reading, names())
    assert model.training
    assert "".join(found.tokens) == TEXT[:-1]
    model.eval()
    probabilities = model(reading.inputs)[0][0].softmax(-1).detach()
    for t, step in enumerate(found.steps):
        assert step.target == TEXT[t + 1]
        assert math.isclose(step.probability, float(probabilities[t, reading.targets[0, t]]), rel_tol=1e-5)
        best = probabilities[t].topk(5)
        assert [token for token, _ in step.alternatives] == [names()[k] for k in best.indices.tolist()]


def test_what_is_lost_without_a_unit(model: rc.models.LanguageModel) -> None:
    """Held at its mean: the same as a model whose unit is put to that value at every step by hand."""
    reading, unit = read_texts(tokenizer(), [TEXT]), Unit(1, False, "h", 3)
    found = ablate_text(model.eval(), reading, unit, names())
    assert found.tokens == list(TEXT[1:])
    logits = model(reading.inputs)[0][0].detach()
    intact = torch.nn.functional.cross_entropy(logits, reading.targets[0], reduction="none")
    torch.testing.assert_close(found.intact, intact, rtol=1e-4, atol=1e-5)
    assert found.rise != 0
    assert math.isclose(found.value, float(watch_reading(model, reading, names()).of("1.h")[:, 3].mean()), rel_tol=1e-4)
    assert found.to_json()["unit"] == "1.h.3"


def test_the_picture_names_its_state(model: rc.models.LanguageModel) -> None:
    figure = watch_reading(model, read_texts(tokenizer(), [TEXT]), names()).plot(name="0.c")
    assert "0.c" in figure.axes[0].get_ylabel()
