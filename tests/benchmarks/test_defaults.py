"""The bench of defaults: a row for every kind, the run beside the network alone and baselines."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from recurra.benchmarks import default_kinds, defaults, language_kinds, plain_scripts
from recurra.cli.main import run
from recurra.data.events import Case
from recurra.data.labelled_tasks import SERIES_KINDS
from recurra.errors import OptionError


def test_a_kind_is_trained_and_evaluated(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write = defaults.KINDS["classify"](0)["load"].write
    few = ["training.steps=1", "training.ensemble=2", "model.hidden_size=4"]
    kind = defaults.Kind(
        "few", "accuracy", True, lambda folder: [*write(folder), *few], lambda run, seconds: {"other": 0.5}
    )
    monkeypatch.setitem(defaults.KINDS, "classify", lambda seed: {"load": kind})
    assert run(["bench", "defaults", "load", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (row,) = found["rows"]
    assert list(row["scores"])[:2] == ["the run", "the network alone"]
    assert row["scores"]["kernel ridge"] > 0.85
    assert row["specialist"] == {"other": 0.5}
    assert run(["bench", "defaults", "nothing"]) == 2


def test_means_over_several_draws_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(recipe: str, name: str, kind: defaults.Kind, seed: int) -> defaults.KindRow:
        number = float(kind.about)
        scores = {"the run": number, "naive": 2 * number} | ({"now and then": 1.0} if number == 3 else {})
        return defaults.KindRow(name, "about", scores, 10 * number, {"other": number}, 1.0)

    def kinds_of(seed: int) -> dict[str, defaults.Kind]:
        return {"one": defaults.Kind(str(seed), "mae", False, lambda folder: [])}

    monkeypatch.setattr(defaults, "_train", train)
    monkeypatch.setitem(defaults.KINDS, "classify", kinds_of)
    (row,) = defaults.bench_defaults(data_seed=3, draws=3).rows
    assert row.scores == {"the run": 4.0, "naive": 8.0}  # of seeds 3, 4 and 5
    assert (row.seconds, row.specialist) == (40.0, {"other": 4.0})


def test_every_kind_of_series_is_there() -> None:
    assert list(defaults.KINDS["classify"](0)) == list(SERIES_KINDS)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults, "KINDS", {"forecast": lambda seed: {}})
    monkeypatch.setitem(defaults.SPECIALISTS, "forecast", "no_such_package")
    told: list[str] = []
    with pytest.raises(OptionError, match="kind"):
        defaults.bench_defaults("forecast", ["any"], say=told.append)
    assert told == ["no_such_package, whose models would stand beside, is not installed: they are left out"]


def test_counts_fall_back_to_what_training_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = ["abcd"] * 8 + ["xbcy"] * 4 + ["abcd", "zbcd", "xbcy", "qqqq", "xbcy", "abcd", "abcd"]
    cases = [Case(str(k), list(way), None, {}) for k, way in enumerate(ways)]
    monkeypatch.setattr(default_kinds, "_split", lambda name, seed: (cases, 12, 12))
    # after ab c, after xb c; bc d or y by the first, always d; cy ends, cd ends; zb c by b alone; qq is never right
    right = {"abcd": 3, "zbcd": 3, "xbcy": 2, "qqqq": 0}
    expected = sum(right[way] for way in ways[12:]) / (3 * 7)
    assert default_kinds.back_off("any")["back-off of order 2"] == pytest.approx(expected)


def test_another_seed_of_the_data_gives_other_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = []
    for k, seed in enumerate((0, 5, 5)):
        (tmp_path / str(k)).mkdir()
        settings = defaults._classify(seed)["load"].write(tmp_path / str(k))
        texts.append([Path(each.partition("=")[2]).read_bytes() for each in settings])
    assert texts[0] != texts[1] == texts[2]
    assert not set(texts[0]) & set(texts[1])
    asked = []
    monkeypatch.setitem(defaults.KINDS, "classify", lambda seed: asked.append(seed) or {})
    assert run(["bench", "defaults", "load", "--data-seed", "5"]) == 2
    assert asked == [5]
    assert run(["bench", "defaults", "--data-seed", "-1"]) == 2
    assert "at least 0; got -1" in capsys.readouterr().err


SMALL = ["training.steps=2", "training.validate_every=2", "model.hidden_size=4"]


@pytest.mark.parametrize(
    "recipe",
    [
        "names",
        "tag",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("piano-roll", "text", "translate", "tree")),
    ],
)
def test_a_script_of_thirty_lines_stands_beside_every_other_recipe(
    recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name, kind), *_ = defaults.KINDS[recipe](3).items()
    if recipe == "text":
        monkeypatch.setattr(language_kinds, "documentation", lambda: "what is said, and said again. " * 300)
        kind = defaults.KINDS[recipe](3)[name]
    small = replace(kind, write=lambda folder: [*kind.write(folder), *SMALL])
    monkeypatch.setitem(defaults.KINDS, recipe, lambda seed: {name: small})
    (row,) = defaults.bench_defaults(recipe, data_seed=3).rows
    assert all(math.isfinite(each) for each in (row.scores | row.specialist).values())
    assert len(row.specialist) == 1


def test_a_script_learns() -> None:
    torch.manual_seed(0)
    model = plain_scripts.Tag(4, 2)
    x = torch.randint(4, (64, 5))

    def score(batch: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, int]:
        return cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten(), reduction="sum"), batch[1].numel()

    data = [(x, x // 2)]
    before = plain_scripts.mean_of(model, data, score)
    plain_scripts.learn(model, itertools.repeat(data[0]), data, score, 1.0)
    assert plain_scripts.mean_of(model, data, score) < 0.5 * before


def test_toy_data_follows_its_seed() -> None:
    for made in (language_kinds.languages, language_kinds.tagged, language_kinds.music, language_kinds.identifiers):
        assert made(8, 1) == made(8, 1) != made(8, 2)
