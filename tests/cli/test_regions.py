"""`recurra regions`: a trained network's regions with their bounds and picture, and a polygonal line as a network."""

import json
from pathlib import Path

import numpy as np
import pytest

from recurra.cli.main import run
from recurra.lecture.regions import lower_bound, rectifier_of, regions_on_plane, upper_bound
from recurra.tasks.train import open_run
from tests.cli.test_train import files, refused

FAST = ["training.steps=20", "training.warmup=2", "model.hidden_size=6"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(*settings: str, out: str = "run") -> None:
    synthetic = [] if any(each.startswith("data.path=") for each in settings) else ["data.count=60"]
    assert run(["train", "feedforward", *FAST, *synthetic, *settings, "--out", out]) == 0


def test_a_trained_run_on_its_plane(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train()
    capsys.readouterr()
    assert run(["regions", "run", "--plot", "pictures/cells.png", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["widths"] == [6, 6]
    network = rectifier_of(open_run(here / "run").model)
    assert found["plane"]["regions"] == len(regions_on_plane(network)) > 7
    window = found["plane"]["window"]
    assert window["regions"] == len(regions_on_plane(network, window["low"], window["high"]))
    assert found["bounds"] == {"upper": upper_bound(2, [6, 6]), "lower": lower_bound(2, [6, 6])}
    assert sorted(found["pictures"]) == sorted(str(each.relative_to(here)) for each in (here / "pictures").iterdir())
    assert len(found["pictures"]) == 4
    assert run(["regions", "run"]) == 0
    out = capsys.readouterr().out
    assert f"the whole plane {found['plane']['regions']}" in " ".join(out.split())
    assert f"no network of this shape has more than {upper_bound(2, [6, 6])}" in " ".join(out.split())


def test_a_picture_without_the_data(here: Path) -> None:
    (here / "t.csv").write_text("a,b,label\n" + "".join(f"{k},{k * k % 7},{k % 2}\n" for k in range(40)))
    train("data.path=t.csv")
    (here / "t.csv").unlink()
    assert run(["regions", "run", "--plot", "cells"]) == 0
    assert (here / "cells-dark.svg").exists()


def test_a_line_through_a_space_of_three_inputs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "t.csv").write_text("a,b,c,label\n" + "".join(f"{k},{k * k % 7},{k % 5},{k % 2}\n" for k in range(40)))
    train("data.path=t.csv")
    capsys.readouterr()
    assert run(["regions", "run", "--line", "0,0,0 9,5,3", "--json"]) == 0
    line = json.loads(capsys.readouterr().out)["line"]
    assert 1 <= line["between_points"] <= line["regions"] <= upper_bound(1, [6, 6])
    assert "this network has 3" in refused(["regions", "run"], capsys)
    assert "'0,0' is no point of 3 numbers" in refused(["regions", "run", "--line", "0,0 1,1"], capsys)


def test_a_polygonal_line_as_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["regions", "--points", "0,0 1,2 3,1 4,4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    x = np.linspace(-1, 5, 101)
    y = found["bias"] + sum(
        unit["output"] * np.maximum(0, unit["weight"] * x + unit["bias"]) for unit in found["units"]
    )
    expected = np.interp(x, [-1, 0, 1, 3, 4, 5], [-2, 0, 2, 1, 4, 7])
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-12)
    assert found["pieces"] == 3
    assert found["bounds"] == {"zaslavsky": 4}
    assert run(["regions", "--points", "0,0 1,2 3,1 4,4"]) == 0
    assert "3 linear pieces" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--points", "0,0 2,1 1,3"], "from left to right, but x = 1 comes after x = 2"),
        (["--points", "0,0 a,1"], "'a,1' is no point of 2 numbers"),
        (["--points", "0,0"], "at least two points"),
        (["--points", ""], "at least two points"),
        ([], "a run folder, or --points"),
        (["run", "--points", "0,0 1,1"], "one of the two"),
        (["--points", "0,0 1,1", "--plot", "x"], "--line and --plot are for a run folder"),
        (["nowhere"], "not a run folder"),
    ],
)
def test_what_is_asked_wrongly(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert message in refused(["regions", *arguments], capsys)
    assert files(here) == {}


def test_runs_that_have_no_regions(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train("model.activation=tanh")
    assert "activation is tanh" in refused(["regions", "run"], capsys)
    small = ["model.hidden_size=4", "data.length=5", "training.steps=2", "engine=eager"]
    assert run(["train", "flip-flop", *small, "--out", "bits"]) == 0
    assert "is a feed-forward network whose linear regions can be counted; flip-flop is not one" in refused(
        ["regions", "bits"], capsys
    )
