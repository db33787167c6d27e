"""Language recipes: how much is trained on, lengths that are drawn, and what an evaluation compares with."""

import json
import random
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from recurra.cli.main import run
from recurra.errors import OptionError
from recurra.tasks import language
from recurra.tasks.catalogue import find_recipe, make_task
from recurra.tasks.corpus import TextData, read_corpus
from recurra.tasks.settings import override
from recurra.training.window_fit import fit_window_model
from tests.cli.test_train import refused

SMALL = [
    "model.hidden_size=10",
    "model.embedding_size=6",
    "training.batch_size=4",
    "training.steps=10",
    "training.warmup=2",
    "training.validate_every=5",
    "engine=eager",
]
LENGTHS = (2, 5, 9)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A text, a folder of texts, and lines of three lengths."""
    monkeypatch.chdir(tmp_path)
    draw = random.Random(0)
    (tmp_path / "text.txt").write_text("".join(draw.choice("abcd \n") for _ in range(6000)))
    (tmp_path / "many").mkdir()
    for k in range(40):
        (tmp_path / f"many/{k}.txt").write_text(f"{k}:" + "".join(draw.choice("abcd ") for _ in range(100)))
    lines = ["".join(draw.choice("abcde") for _ in range(LENGTHS[k % 3])) for k in range(120)]
    (tmp_path / "names.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def train_text(out: str = "run") -> list[str]:
    return ["train", "text", "data.path=text.txt", *SMALL, "training.truncation=every:8", "--out", out]


def train_names(out: str = "run") -> list[str]:
    return ["train", "names", "data.path=names.txt", *SMALL, "--out", out]


class TestLimit:
    @pytest.mark.parametrize(
        ("data", "limit"),
        [
            (TextData("text.txt", valid=0.1, test=0.1), 500),
            (TextData("many", valid=0.1, test=0.1), 1000),
            (TextData("names.txt", sequences=True, valid=0.1, test=0.1), 150),
        ],
        ids=["one text", "many texts", "lines"],
    )
    def test_it_shortens_the_training_part_only(self, here: Path, data: TextData, limit: int) -> None:
        whole = read_corpus(data, seed=0)
        short = read_corpus(replace(data, limit=limit), 0, whole.tokenizer)
        extra = 2 if data.sequences else 0  # the start and the end of each line are tokens too
        size = sum(len(part) - extra for part in short.train)
        assert 0.7 * limit < size <= limit * 1.01
        assert size < 0.6 * sum(len(part) - extra for part in whole.train)
        for one, other in ((short.valid, whole.valid), (short.test, whole.test)):
            assert len(one) == len(other)
            assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))

    def test_of_one_text_its_beginning_is_kept(self, here: Path) -> None:
        corpus = read_corpus(TextData("text.txt", limit=300), seed=0)
        assert corpus.tokenizer.decode(corpus.train[0]) == (here / "text.txt").read_text()[:300]

    def test_lines_stay_whole_and_are_lines_of_the_training_part(self, here: Path) -> None:
        data = TextData("names.txt", sequences=True)
        whole = read_corpus(data, seed=0)
        short = read_corpus(replace(data, limit=100), 0, whole.tokenizer)
        known = [tuple(line.tolist()) for line in whole.train]
        found = [tuple(line.tolist()) for line in short.train]
        places = [known.index(line) for line in found]
        assert max(places) > 60, "not the first ones only"
        assert 10 < len(found) < 60

    def test_a_run_trains_on_that_much(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run([*train_text(), "data.limit=400"]) == 0
        assert "400 char tokens" in capsys.readouterr().err

    def test_nothing_is_no_limit(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "data.limit must be at least 1" in refused([*train_text(), "data.limit=0"], capsys)


class TestDrawLength:
    def test_lengths_are_those_seen_in_training(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(train_names()) == 0
        counted = json.loads((here / "run/vocabulary.json").read_text())["lengths"]
        assert sorted(map(int, counted)) == list(LENGTHS)
        assert sum(counted.values()) == 96
        capsys.readouterr()
        found = set()
        for seed in range(12):
            assert run(["sample", "run", "--draw-length", "--seed", str(seed), "--json"]) == 0
            found.add(len(json.loads(capsys.readouterr().out)["text"]))
        assert found == set(LENGTHS)

    def test_what_is_given_counts(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(train_names()) == 0
        capsys.readouterr()
        for seed in range(6):
            assert run(["sample", "run", "--draw-length", "--prime", "ab", "--seed", str(seed)]) == 0
            text = capsys.readouterr().out.removesuffix("\n")
            assert text.startswith("ab")
            assert len(text) in LENGTHS

    def test_lengths_come_as_often_as_in_training(self) -> None:
        made = make_task(find_recipe("names").settings, vocabulary={"lengths": {"3": 10, "7": 70, "11": 20}})
        made.draw = lambda model, prime, length, **how: range(length)
        generator = torch.Generator().manual_seed(0)
        drawn = [len(made.generate(None, [], None, generator=generator)) for _ in range(2000)]
        shares = [drawn.count(length) / 2000 for length in (3, 7, 11)]
        assert shares == pytest.approx([0.1, 0.7, 0.2], abs=0.04)  # four standard deviations

    def test_one_long_text_has_no_lengths(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(train_text()) == 0
        assert "Give a length" in refused(["sample", "run", "--draw-length"], capsys)


class TestBaselines:
    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(language, "fit_window_model", partial(fit_window_model, steps=60, hidden_size=16))

    @pytest.mark.parametrize("train", [train_text, train_names], ids=["streams", "sequences"])
    def test_window_and_dynamic_add_rows(self, here: Path, capsys: pytest.CaptureFixture[str], train) -> None:  # type: ignore[no-untyped-def]
        assert run(train()) == 0
        capsys.readouterr()
        assert run(["evaluate", "run", "--json"]) == 0
        plain = json.loads(capsys.readouterr().out)
        assert run(["evaluate", "run", "--window", "4", "--dynamic", "0.002", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert set(found["scores"]) - set(plain["scores"]) == {"window of 4", "lstm-10, dynamic"}
        assert {name: found["scores"][name] for name in plain["scores"]} == plain["scores"]
        assert found["tokens"] == plain["tokens"]
        network = found["scores"]["lstm-10"]["nats"]
        assert found["scores"]["window of 4"]["nats"] < network, "ten steps of training are few"
        assert run(["evaluate", "run", "--window", "4", "--no-baselines"]) == 0
        assert "window of 4" in capsys.readouterr().out

    def test_going_on_to_learn_helps_a_model_that_has_learned_little(
        self, here: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(train_text()) == 0
        capsys.readouterr()
        assert run(["evaluate", "run", "--dynamic", "0.002", "--no-baselines", "--json"]) == 0
        scores = json.loads(capsys.readouterr().out)["scores"]
        assert scores["lstm-10, dynamic"]["nats"] < scores["lstm-10"]["nats"]

    def test_what_makes_no_sense_is_refused(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(train_text()) == 0
        assert "rate=0.0" in refused(["evaluate", "run", "--dynamic", "0"], capsys)
        assert "--window" in refused(["evaluate", "run", "--window", "0"], capsys)


@pytest.mark.parametrize(
    ("recipe", "setting", "words"),
    [
        ("text", "training.feeding=techer", "teacher"),
        ("text", "training.average=ema:1.2.3", "ema:0.999"),
        ("text", "training.truncation=none", "whole sequences"),
        ("text", "data.limit=-3", "data.limit"),
    ],
)
def test_settings_that_make_no_sense_are_refused(recipe: str, setting: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        override(find_recipe(recipe).settings, [setting])


def test_another_text_is_evaluated_whole_whatever_the_limit_of_training(tmp_path: Path) -> None:
    for name, count in (("own", 300), ("other", 1000)):
        (tmp_path / f"{name}.txt").write_text("abcde" * count)
    settings = [f"data.path={tmp_path / 'own.txt'}", "data.limit=500", "model.hidden_size=4", "engine=eager"]
    made = find_recipe("text").configure(settings)
    answer = made.evaluate(made.make_model().eval(), data=str(tmp_path / "other.txt"), baselines=False)
    assert answer.count == 4999


@pytest.mark.usefixtures("here")
def test_the_untrained_model_is_the_one_that_training_starts_from() -> None:
    recipe = override(find_recipe("names").settings, ["data.path=names.txt", "model.hidden_size=5"])
    task = make_task(recipe)
    before = torch.random.get_rng_state()
    untrained = task.untrained_model()
    assert torch.equal(before, torch.random.get_rng_state())
    started = task.trainer().model.state_dict()
    of_network = {
        name: value for name, value in untrained.state_dict().items() if not name.startswith(("baseline", "share"))
    }
    assert all(torch.equal(value, started[name]) for name, value in of_network.items())
