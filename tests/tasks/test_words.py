"""The recipe for long texts of words: what follows from the text, an adaptive softmax, and a cache beside the static figure."""

import json
import random
from pathlib import Path

import pytest

import recurra as rc
from recurra.cli.main import run
from recurra.layers.adaptive_softmax import AdaptiveSoftmax
from recurra.tasks import texts
from recurra.tasks.catalogue import find_recipe
from recurra.tasks.recipe import follow_data
from tests.cli.test_train import refused

SMALL = ["model.hidden_size=16", "training.batch_size=4", "training.truncation=every:8", "training.steps=30"]
SMALL += ["training.validate_every=30", "data.min_count=1", "engine=eager"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A text of topics: each paragraph repeats a few words of its own."""
    monkeypatch.chdir(tmp_path)
    draw = random.Random(0)
    lines = []
    for _ in range(120):
        own = [f"w{draw.randrange(60)}" for _ in range(3)]
        lines.append(" ".join(draw.choice([*own, "the", "of"]) for _ in range(25)))
    (tmp_path / "text.txt").write_text("\n".join(lines))
    return tmp_path


def derived(*settings: str) -> dict[str, object]:
    task = find_recipe("words").configure(["data.path=text.txt", "data.min_count=1", *settings])
    return {each.key: each.value for each in follow_data(task)}


@pytest.mark.usefixtures("here")
class TestRule:
    def test_size_and_steps_follow_from_the_text(self) -> None:
        found = derived()
        assert found["model.hidden_size"] == 64
        assert found["training.steps"] == 100
        assert found["model.dropout"] == 0.5
        assert "model.softmax" not in found

    def test_what_is_given_stays(self) -> None:
        assert "model.hidden_size" not in derived("model.hidden_size=48")

    def test_many_words_have_an_adaptive_softmax(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(texts.MANY_WORDS, "cpu", 40)
        assert derived()["model.softmax"] == "adaptive"
        for full in ("model.tied=true", "model.softmax=full", "data.tokens=char"):
            assert "model.softmax" not in derived(full)


@pytest.mark.usefixtures("here")
def test_a_run_with_an_adaptive_softmax_is_trained_opened_and_sampled(capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["model.softmax=adaptive", "training.average=none", "training.learning_rate=0.02", "training.warmup=2"]
    assert run(["train", "words", "data.path=text.txt", *SMALL, *settings, "--out", "run"]) == 0
    opened = rc.open("run")
    assert isinstance(opened.model.output, AdaptiveSoftmax)
    scores = opened.evaluate(dynamic=0.002, cache=True).scores
    static, dynamic, cached = (
        scores[name]["nats"] for name in scores if name.startswith("lstm-16") and "markov" not in name
    )
    assert static < 3.7, "below the 4.16 nats of guessing among 64 words"
    assert dynamic < static
    assert cached < static
    assert len(opened.sample(length=20, seed=1).text.split()) > 5
    capsys.readouterr()
    assert run(["evaluate", "run", "--cache", "--no-baselines", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["scores"]
    assert any("cache of" in name for name in found)


@pytest.mark.usefixtures("here")
def test_lines_that_are_sequences_have_no_cache(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["train", "names", "data.path=text.txt", *SMALL[:2], *SMALL[3:], "training.steps=2", "--out", "run"]) == 0
    )
    capsys.readouterr()
    assert "a cache remembers one long text" in refused(["evaluate", "run", "--cache"], capsys)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("model.tied=true", "an adaptive softmax has maps of its own"),
        ("model.deep_output=1", "an adaptive softmax has maps of its own"),
        ("data.tokens=char", "only words are numbered by frequency"),
    ],
)
@pytest.mark.usefixtures("here")
def test_what_an_adaptive_softmax_does_not_go_with_is_refused(
    setting: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["train", "words", "data.path=text.txt", *SMALL, "model.softmax=adaptive", setting, "--out", "run"]
    assert words in refused(given, capsys)


@pytest.mark.usefixtures("here")
def test_layers_of_different_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["model.hidden_sizes=12,10,8", "training.steps=12", "training.validate_every=6", "model.dropout=0"]
    assert run(["train", "words", "data.path=text.txt", *settings, "--out", "run"]) == 0
    opened = rc.open("run")
    assert opened.model.recurrent.hidden_sizes == (12, 10, 8)
    assert opened.model.embedding.weight is opened.model.output.weight
    assert opened.model.embedding.weight.shape[1] == 8
    assert next(iter(opened.evaluate(cache=True, dynamic=1e-3).scores)) == "lstm-12-10-8"
    assert opened.sample(length=5, seed=0)
    for given in ("model.hidden_size=9", "model.layers=2"):
        assert run(["train", "words", "data.path=text.txt", *settings, given, "--out", "other"]) == 2
        assert "model.hidden_sizes has one number for each layer" in capsys.readouterr().err
    assert run(["train", "words", "data.path=text.txt", "model.hidden_sizes=12,0", "--out", "other"]) == 2
