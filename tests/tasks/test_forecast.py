"""The recipe `forecast`: from a file to a run, its backtest and its forecasts; what it depends on, and what it refuses."""

import csv
import json
import math
from pathlib import Path

import pytest
import torch

from recurra.cli.main import run
from recurra.data.series import Scaling
from recurra.data.series_tasks import seasons
from recurra.models.heads import HEADS
from recurra.tasks import catalogue
from recurra.tasks.catalogue import find_recipe
from recurra.tasks.forecast import SeriesTask
from recurra.tasks.train import open_run
from recurra.training import backtest
from tests.cli.test_train import outcome, refused

SMALL = [
    "data.window=30",
    "model.hidden_size=8",
    "model.combine=none",
    "training.steps=30",
    "training.validate_every=10",
    "training.warmup=5",
    "training.batch_size=16",
    "training.average=none",
    "backtest.origins=9",
    "backtest.samples=40",
    "backtest.horizon=6",
]


def write(name: str, rows: list[list[object]]) -> None:
    with Path(name).open("w", newline="") as file:
        csv.writer(file).writerows(rows)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a series of two channels by the hour, some values missing."""
    monkeypatch.chdir(tmp_path)
    load = seasons(400)[:, 0].tolist()
    rows: list[list[object]] = [["time", "load", "sun"]]
    for k, value in enumerate(load):
        missing = k % 17 == 3
        sun = round(1000 + 50 * math.sin(2 * math.pi * k / 24) + value, 3)
        rows.append([f"2024-03-{1 + k // 24:02d} {k % 24:02d}:00:00", "" if missing else round(value, 3), sun])
    write("load.csv", rows)
    return tmp_path


def make_task(*extra: str) -> SeriesTask:
    made_up = [] if any(each.startswith("data.path=") for each in extra) else ["data.length=400"]
    made = find_recipe("forecast").configure([*made_up, *SMALL, *extra])
    assert isinstance(made, SeriesTask)
    return made


def trained(*extra: str) -> tuple[SeriesTask, object]:
    made = make_task(*extra)
    trainer = made.trainer()
    list(trainer.events())
    return made, trainer.evaluated


class TestCommandLine:
    def train(self, *extra: str, out: str = "run") -> list[str]:
        return ["train", "forecast", *SMALL, "data.path=load.csv", *extra, "--out", out]

    def test_a_file_from_end_to_end(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(self.train()) == 0
        said = capsys.readouterr().err
        assert "load, sun by time, 280 of 400 steps to learn from, some values missing, a season of 24" in said
        assert run(["evaluate", "run", "--json", "--plot"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["data"] == "test, 9 origins, 6 steps ahead, in standard deviations"
        names = list(answer["scores"])
        assert names[:3] == ["gru-8", "naive", "seasonal naive, 24"]
        assert names[3].startswith("autoregression of order")
        for row in answer["scores"].values():
            assert row["crps"] < row["mae"] < row["rmse"] < 3
            assert 0 < row["90% covered"] <= 1
        assert "nats" in answer["scores"]["gru-8"]
        assert (here / "run/explain/backtest.svg").read_text().lstrip().startswith("<?xml")
        assert run(["evaluate", "run", "--data", "load.csv", "--no-baselines"]) == 0
        assert "load.csv, 9 origins" in capsys.readouterr().out

    def test_a_forecast_with_intervals_and_times(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(self.train()) == 0
        capsys.readouterr()
        assert run(["forecast", "run", "--steps", "4", "--plot", "next.svg"]) == 0
        rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
        assert [row["time"] for row in rows] == [f"2024-03-17 {hour}:00:00" for hour in (16, 17, 18, 19)]
        for row in rows:
            for name in ("load", "sun"):
                assert float(row[f"{name} 0.05"]) < float(row[name]) < float(row[f"{name} 0.95"])
            assert 900 < float(row["sun"]) < 1150  # in the numbers of the file
        assert (here / "next.svg").exists()
        assert run(["forecast", "run", "--steps", "4", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["interval"] == 0.9
        assert found["values"][2][1] == float(rows[2]["sun"])
        assert found["low"][2][1] == float(rows[2]["sun 0.05"])
        assert found["times"][0] == "2024-03-17 16:00:00"

    def test_another_file_without_the_data_of_the_run(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(self.train()) == 0
        rows = list(csv.reader((here / "load.csv").read_text().splitlines()))
        write("part.csv", [[row[0], "word", row[2], row[1]] for row in rows[:100]])  # columns in another order
        header = (here / "part.csv").read_text().splitlines()
        header[0] = "time,note,sun,load"
        (here / "part.csv").write_text("\n".join(header) + "\n")
        write("same.csv", rows[:100])
        (here / "load.csv").unlink()
        capsys.readouterr()
        found = []
        for name in ("part.csv", "same.csv"):
            assert run(["forecast", "run", "--steps", "3", "--data", name, "--json"]) == 0
            found.append(json.loads(capsys.readouterr().out))
        assert found[0] == found[1]
        assert found[0]["columns"] == ["load", "sun"]
        assert "load.csv cannot be read" in refused(["forecast", "run"], capsys)

    def test_the_same_recipe_gives_the_same_bytes_and_resumes(self, here: Path) -> None:
        assert run(self.train(out="one")) == run(self.train(out="two")) == 0
        assert outcome(here / "one") == outcome(here / "two")
        assert run(["train", "--resume", "one"]) == 0
        assert outcome(here / "one") == outcome(here / "two")


class TestWhatItLearns:
    def test_a_wave_better_than_what_comes_again(self) -> None:
        made, model = trained(
            "data.task=sines", "training.steps=150", "training.learning_rate=0.02", "model.hidden_size=16"
        )
        scores = made.evaluate(model).scores
        assert scores["gru-16"]["crps"] < 0.3 * scores["naive"]["crps"]

    @pytest.mark.parametrize("head", HEADS[:3])
    def test_every_head_of_numbers(self, head: str) -> None:
        made, model = trained(f"model.head={head}", "model.change=false", "training.steps=60")
        scores = made.evaluate(model).scores["gru-8"]
        assert math.isfinite(scores["crps"])
        assert ("nats" in scores) == (head != "quantiles")

    def test_what_grows_is_learned_from_its_changes(self, here: Path) -> None:
        grown = [100 * math.exp(0.02 * k + 0.3 * math.sin(2 * math.pi * k / 12)) for k in range(200)]
        write(
            "grown.csv",
            [["date", "sold"], *([f"{2000 + k // 12}-{k % 12 + 1:02d}-01", v] for k, v in enumerate(grown))],
        )
        how = ["data.path=grown.csv", "model.change=false", "training.learning_rate=0.02", "training.steps=60"]
        made, model = trained(*how, "data.log=true", "data.difference=1")
        scores = made.evaluate(model).scores
        assert scores["gru-8"]["mae"] < 0.5 * scores["naive"]["mae"]
        seen = made.forecast(model, 3)
        assert seen.times[0] == "2016-09-01"
        assert bool(((seen.predictions > 0.5 * grown[-1]) & (seen.low > 0)).all())

    @pytest.mark.parametrize("head", HEADS[3:])
    def test_zeros_and_ones(self, here: Path, head: str) -> None:
        write("on.csv", [["on", "off"], *([k % 3 == 0, k % 3 != 0] for k in range(300))])
        text = (here / "on.csv").read_text().replace("True", "1").replace("False", "0")
        (here / "on.csv").write_text(text)
        how = [f"model.head={head}", "model.change=false", "data.path=on.csv", "training.steps=120"]
        made, model = trained(*how, "training.learning_rate=0.03")
        assert made.evaluate(model).scores["gru-8"]["nats"] < 0.2
        seen = made.forecast(model, 6)
        assert seen.low is None
        assert seen.predictions[:, 0].round().tolist() == [1, 0, 0, 1, 0, 0]

    @pytest.mark.parametrize("feeding", ["free", "scheduled:0.5"])
    def test_it_may_be_fed_what_it_predicts(self, feeding: str) -> None:
        made, model = trained(f"training.feeding={feeding}", "data.window=12", "training.steps=12")
        assert math.isfinite(made.evaluate(model).scores["gru-8"]["crps"])

    def test_a_probe_needs_no_data(self) -> None:
        made = make_task()
        again = catalogue.make_task(made.settings, vocabulary=made.vocabulary)
        probe = again.probe(again.make_model(), 50)
        assert probe.x.shape == (4, 50, 1)
        assert bool((probe.x[0] != probe.x[1]).any())
        assert "parts" not in vars(again)


class TestWhatResultsDependOn:
    def test_not_on_how_many_are_evaluated_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made, model = trained("dtype=float64")
        before = made.evaluate(model, baselines=False).scores["gru-8"]
        valid = made.trainer().evaluate(model)
        monkeypatch.setattr(backtest, "AT_ONCE", 2)
        monkeypatch.setattr(made, "evaluated_together", 3)
        assert made.evaluate(model, baselines=False).scores["gru-8"] == pytest.approx(before, rel=1e-9)
        assert made.trainer().evaluate(model) == pytest.approx(valid, rel=1e-9)

    def test_every_held_out_step_counts_once(self) -> None:
        made = make_task()
        made.scaling = Scaling((0.0,), (1.0,))
        values = torch.arange(100.0)[:, None]
        for begin_at in (40, 97):
            batches = made._held_out(values, begin_at)
            found = [
                batch.targets[..., 0][batch.scored > 0] if batch.scored is not None else batch.targets[..., 0].flatten()
                for batch in batches.one_pass()
            ]
            assert sorted(torch.cat(found).tolist()) == list(range(begin_at, 100))

    def test_scaling_is_that_of_the_training_part_and_kept(self, here: Path) -> None:
        assert run(["train", "forecast", *SMALL, "data.path=load.csv", "--out", "run"]) == 0
        made = open_run(Path("run")).task
        kept = json.loads((here / "run/vocabulary.json").read_text())
        (here / "load.csv").unlink()
        assert list(made.scaling.mean) == kept["mean"]
        assert kept["columns"] == ["load", "sun"]
        assert kept["gaps"] is True
        assert kept["mean"][1] == pytest.approx(1011.5, abs=3)


class TestRefusals:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("a\n" + "1\n2\n" * 10, "20 steps leave 3 for the test, fewer than the horizon of 6"),
            ("a\n" + "1\n2\n" * 90 + "x\n", "row 182, a: 'x' is not a finite number"),
            ("a,b\n" + "1,\n2,\n" * 90, "b has no value in the 126 steps to learn from"),
            ("a,b\n" + "1,7\n2,7\n" * 90, "b is always the same in the 126 steps"),
            ("date,a\n2024-01-01,1\n2024-01-02,2\nthen,3\n", "row 4: 'then' is no time that can be read"),
            ("a,b\n1,2\n3\n", "line 3: 1 cells, but there are 2 columns"),
            ("a\n", "0 steps leave 0 to learn from and 0 for validation"),
        ],
    )
    def test_series_in_one_line_and_nothing_is_written(
        self, here: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
    ) -> None:
        (here / "bad.csv").write_text(text)
        assert said in refused(["train", "forecast", *SMALL, "data.path=bad.csv", "--out", "run"], capsys)
        assert not (here / "run").exists()

    @pytest.mark.parametrize(
        ("assignment", "said"),
        [
            ("data.columns=lod", "no column 'lod'. Did you mean 'load'"),
            ("data.time=when", "no column 'when'"),
            ("backtest.horizon=90", "fewer than the horizon of 90"),
            ("data.valid=0.845", "leave 2 to learn from and 338 for validation, where 10 and 1"),
            ("data.valid=0.001", "340 to learn from and 0 for validation"),
            ("backtest.horizon=0", "backtest.horizon must be at least 1"),
            ("backtest.interval=1", "backtest.interval must lie between 0 and 1"),
            ("model.head=gauss", "Did you mean 'gaussian'"),
            ("model.head=bernoulli", "Add model.change=false"),
            ("data.difference=-1", "data.difference must not be negative"),
            ("data.difference=275", "where 285 and 1 are the least"),
            ("training.truncation=window:5", "use none or every:K"),
            ("model.tied=true", "it is for tokens"),
            ("data.valid=0.9", "must leave something"),
            ("data.path=none.csv", "none.csv cannot be read"),
        ],
    )
    def test_settings(self, here: Path, capsys: pytest.CaptureFixture[str], assignment: str, said: str) -> None:
        line = refused(["train", "forecast", *SMALL, "data.path=load.csv", assignment, "--out", "run"], capsys)
        assert said in line
        assert not (here / "run").exists()

    def test_numbers_where_there_should_be_0_and_1(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        how = ["data.path=load.csv", "model.head=bernoulli", "model.change=false"]
        assert "neither 0 nor 1" in refused(["train", "forecast", *SMALL, *how, "--out", "run"], capsys)

    def test_other_files(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["train", "forecast", *SMALL, "data.path=load.csv", "--out", "run"]) == 0
        write("other.csv", [["load"], [1], [2]])
        assert "no column 'sun'" in refused(["forecast", "run", "--data", "other.csv"], capsys)
        write("short.csv", [["load", "sun"], [1, 2], [3, 4]])
        said = refused(["evaluate", "run", "--data", "short.csv"], capsys)
        assert "0 steps are left to judge by, fewer than the horizon of 6" in said
        write("one.csv", [["load", "sun"], [1, 2]])
        assert "1 steps are known" in refused(["forecast", "run", "--data", "one.csv"], capsys)
        assert "window is not for forecast" in refused(["evaluate", "run", "--window", "3"], capsys)
        assert ".svg, .png or .pdf" in refused(["forecast", "run", "--plot", "next.gif"], capsys)
