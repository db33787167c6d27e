"""Runs that combine a network with a baseline: the baseline is in the weights, and everything that predicts uses both."""

import json
import random
import re
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

import recurra as rc
from recurra.data.log_tasks import log_rows, synthetic_log
from recurra.errors import DataError, OptionError
from recurra.tasks.catalogue import find_recipe

EVENTS: dict[str, Any] = {"hidden_size": 4, "steps": 12, "validate_every": 6, "batch_size": 16}
SERIES: dict[str, Any] = {"hidden_size": 4, "steps": 12, "validate_every": 6, "data.window": 30, "backtest.horizon": 6}
SERIES |= {"backtest.origins": 6, "backtest.samples": 20}


@pytest.fixture
def log() -> list[dict[str, Any]]:
    return log_rows(synthetic_log(60, activities=5, length=5, seed=1))


class TestEvents:
    def test_what_a_run_predicts_with_needs_no_data(self, tmp_path: Path, log: list[dict[str, Any]]) -> None:
        run = rc.train("events", log, out=tmp_path / "run", combine="baseline", **EVENTS)
        assert 0.5 < float(run.model.share) < 1  # a dozen steps of a small network against counts
        scores = run.evaluate().scores
        both, alone, counted, *_ = scores
        assert both == f"lstm-4 and {float(run.model.share):.0%} {counted}"
        assert alone == "lstm-4"
        assert scores[both]["nats"] < min(scores[alone]["nats"], scores[counted]["nats"])
        rows = run.predict(log).rows
        for path in (tmp_path / "run").glob("data*"):
            path.unlink() if path.is_file() else None
        assert rc.open(tmp_path / "run").predict(log).rows == rows
        note = str(run.export("weights"))
        assert "The network alone is exported" in note

    def test_a_network_that_is_not_surely_better_has_no_part(self, tmp_path: Path, log: list[dict[str, Any]]) -> None:
        run = rc.train("events", log, out=tmp_path / "run", **EVENTS)
        scores = run.evaluate().scores
        first, alone, counted, *_ = scores
        assert float(run.model.share) == 1
        assert first == f"{counted} alone"
        assert scores[first] == pytest.approx(scores[first] | scores[counted])
        assert scores[alone]["nats"] > scores[counted]["nats"]
        assert "the run does not predict with it alone" in str(run.compare())

    def test_none_is_the_network_alone(self, tmp_path: Path, log: list[dict[str, Any]]) -> None:
        run = rc.train("events", log, out=tmp_path / "run", combine="none", **EVENTS)
        assert run.model.baseline is None
        assert next(iter(run.evaluate().scores)) == "lstm-4"
        found = run.compare()
        assert found is not None
        assert found.combined is None

    def test_it_resumes_to_the_same_numbers(self, tmp_path: Path, log: list[dict[str, Any]], cut_off: Any) -> None:
        whole = rc.train("events", log, out=tmp_path / "whole", **EVENTS)
        with cut_off():
            rc.train("events", log, out=tmp_path / "cut", **EVENTS)
        resumed = rc.open(tmp_path / "cut").resume()
        assert resumed.digest() == whole.digest()

    def test_steps_and_dropout_follow_from_the_cases(self, tmp_path: Path, log: list[dict[str, Any]]) -> None:
        run = rc.train("events", log, out=tmp_path / "run", **EVENTS)
        assert (run.settings.model.dropout, run.settings.training.learning_rate) == (0.5, 3e-3)


class TestText:
    """Counts beside a language model: of one long text, and of lines."""

    TEXT = (
        "".join(f"{a} {b} {c}. " for a in ("the cat", "a dog") for b in ("saw", "ate") for c in ("a mat", "the hat"))
        * 30
    )
    SMALL: ClassVar[dict[str, Any]] = {"hidden_size": 8, "steps": 12, "validate_every": 6, "batch_size": 4}

    def test_what_a_run_predicts_with_needs_no_data(self, tmp_path: Path) -> None:
        run = rc.train(
            "text", [self.TEXT], out=tmp_path / "run", combine="baseline", truncation="every:8", **self.SMALL
        )
        assert 0 < float(run.model.share) <= 1
        scores = run.evaluate().scores
        first, alone, *_ = scores
        order, share = run.model.baseline.order, float(run.model.share)
        assert first == (f"lstm-8 and {share:.0%} markov order {order}" if share < 1 else f"markov order {order} alone")
        assert alone == "lstm-8"
        assert scores[first]["nats"] < scores[alone]["nats"]
        written, score = run.sample(prime="the ", length=30, seed=1), run.score("the cat", baselines=False)
        assert list(score.logs) == [first, alone]
        answer = run.stream().step("the ")
        for path in (tmp_path / "run").glob("data*"):
            path.unlink() if path.is_file() else None
        again = rc.open(tmp_path / "run")
        assert again.sample(prime="the ", length=30, seed=1) == written
        assert again.stream().step("the ") == answer
        assert not again.model.training
        assert again.score("the cat", baselines=False).to_json() == score.to_json()
        note = "predicts with its baseline alone" if share == 1 else "network alone is exported"
        assert note in str(again.export("weights"))

    def test_a_stream_gives_the_same_bits_in_pieces(self, tmp_path: Path) -> None:
        run = rc.train(
            "text", [self.TEXT], out=tmp_path / "run", combine="baseline", truncation="every:8", **self.SMALL
        )
        run.model.share.fill_(0.6)
        text, one = self.TEXT[:120], run.stream()
        assert [one.step(each, top=99) for each in text] == run.stream().step(text, top=99, each=True)
        whole, pieces, moved = run.stream(), run.stream(), run.stream()
        answer = whole.step("a dog ate")
        for part in ("a d", "o", "g at"):
            pieces.step(part)
        moved.state = pieces.state
        assert pieces.step("e") == moved.step("e") == answer
        state = pieces.state
        for odd in (-1.0, 0.5, 1e30):
            with pytest.raises(DataError, match="whole numbers from 0"):
                moved.state = state | {"before": [odd] * len(state["before"])}

    def test_before_the_first_validation_counts_predict(self) -> None:
        """As where a run is stopped early: what a network has not yet shown it can do is left out."""
        task = find_recipe("text")([self.TEXT], truncation="every:8", average="ema:0.9", **self.SMALL)
        trainer = task.trainer()
        assert float(trainer.model.share) == float(trainer.evaluated.share) == 1
        trainer.evaluate(trainer.evaluated)
        assert float(trainer.model.share) == float(trainer.evaluated.share)

    def test_a_run_is_scored_by_the_counts_that_it_keeps(self, tmp_path: Path) -> None:
        file = tmp_path / "text.txt"
        file.write_text(self.TEXT)
        run = rc.train("text", file, out=tmp_path / "run", combine="baseline", truncation="every:8", **self.SMALL)
        before = run.score("the cat").logs
        other = "".join(random.Random(1).choices("the cat", k=len(self.TEXT)))
        file.write_text(other)
        again = rc.open(tmp_path / "run")
        rows = again.evaluate(str(file)).scores
        logs = again.score(other).logs
        assert list(logs) == list(before)
        for name, values in logs.items():
            assert rows[name]["nats"] == pytest.approx(-float(values.mean()), rel=0.01)
        file.unlink()
        after = rc.open(tmp_path / "run").score("the cat").logs
        assert all(torch.equal(after[name], before[name]) for name in before)

    @pytest.mark.parametrize("combine", ["none", "auto"])
    def test_a_network_that_is_not_surely_better_has_no_part(self, tmp_path: Path, combine: str) -> None:
        lines = ["".join(random.Random(k).choices("abc", k=8)) + "d" for k in range(120)]
        run = rc.train("names", lines, out=tmp_path / "run", combine=combine, embedding_size=4, **self.SMALL)
        first = next(iter(run.evaluate().scores))
        found = run.compare()
        assert found is not None
        if combine == "none":
            assert run.model.baseline is None
            assert first == "lstm-8"
            assert found.combined is None
            assert "Try model.combine=auto" in str(found)
        else:
            assert float(run.model.share) == 1
            assert first.startswith("markov order")
            assert "the run does not predict with it alone" in str(found)

    def test_it_resumes_to_the_same_numbers(self, tmp_path: Path, cut_off: Any) -> None:
        how = self.SMALL | {"combine": "auto", "truncation": "every:8"}
        whole = rc.train("text", [self.TEXT], out=tmp_path / "whole", **how)
        with cut_off():
            rc.train("text", [self.TEXT], out=tmp_path / "cut", **how)
        resumed = rc.open(tmp_path / "cut").resume()
        assert resumed.digest() == whole.digest()

    def test_sizes_that_no_counts_have_are_refused(self, tmp_path: Path) -> None:
        run = rc.train("text", [self.TEXT], out=tmp_path / "run", truncation="every:8", **self.SMALL)
        file = run.path / "vocabulary.json"
        kept = json.loads(file.read_text())
        file.write_text(json.dumps(kept | {"markov": [[5, 1], [7, 2]]}))
        (run.path / "manifest.json").unlink()
        with pytest.warns(rc.RunWarning, match="manifest.json"), pytest.raises(DataError, match="no counts have"):
            rc.open(run.path).sample(length=3)

    @pytest.mark.parametrize("recipe", ["lengths", "words", "fixed-window"])
    def test_models_that_have_no_place_for_counts_refuse_them(self, recipe: str) -> None:
        more = {"softmax": "adaptive"} if recipe == "words" else {}
        with pytest.raises(OptionError, match="combine"):
            find_recipe(recipe)([self.TEXT], combine="baseline", **more).check()


class TestForecast:
    def test_it_begins_with_the_baseline(self) -> None:
        series = rc.data.synthetic_series(200, periods=(12,), noise=0.1)
        task = find_recipe("forecast")(series, **SERIES)
        model = task.trainer().model
        name, fitted = task.linear
        noise = torch.full((1, 6, 1), 0.5, dtype=torch.float64)
        known = task.scaling.shrink(series[None, -40:])
        torch.testing.assert_close(
            model.run_free(known, noise).double(), fitted.run_free(known, noise), rtol=1e-3, atol=1e-3
        )
        assert task.known["linear"] == name
        assert re.fullmatch(r"the mean of \d baselines|.*autoregression.*|exponential smoothing", name)

    def test_a_network_has_a_part_where_that_is_surely_better(self) -> None:
        series = rc.data.synthetic_series(300, past=(0.5,), seed=3)
        shares: dict[str, list[float]] = {}
        for combine in ("auto", "baseline"):
            task = find_recipe("forecast")(series, combine=combine, **SERIES)
            trainer = task.trainer()
            for seed in range(4):  # random outputs: what they add to the best forecast is better by chance
                torch.manual_seed(seed)
                torch.nn.init.normal_(trainer.model.output.weight, std=0.02)
                trainer.evaluate(trainer.model)
                shares.setdefault(combine, []).append(float(trainer.model.share))
        assert all(mine in (1, best) for mine, best in zip(shares["auto"], shares["baseline"], strict=True))
        assert shares["auto"].count(1) > shares["baseline"].count(1)

    def test_a_run_streams_and_opens_with_it(self, tmp_path: Path) -> None:
        series = rc.data.synthetic_series(200, periods=(12,), gaps=0.05)
        run = rc.train("forecast", series, out=tmp_path / "run", **SERIES)
        assert run.model.baseline is not None
        first = next(iter(run.evaluate().scores))
        assert first == f"gru-4 on {run.task.known['linear']}"
        assert run.compare() is not None
        again = rc.open(tmp_path / "run")
        torch.testing.assert_close(again.forecast(5).predictions, run.forecast(5).predictions)
        values = series[:40, 0].nan_to_num(0.5).tolist()
        at_once, steps = run.stream(), again.stream()
        answer = at_once.step(values)
        for value in values:
            last = steps.step([value])
        assert last == answer
        other = run.stream()
        other.state = steps.state
        assert other.step([0.1]) == steps.step([0.1])
        with pytest.raises(OptionError, match=r"model\.combine=none"):
            run.export("onnx")

    def test_a_series_that_grows_by_shares_is_read_as_logarithms(self, tmp_path: Path) -> None:
        series = rc.data.synthetic_series(200, seed=7, periods=(12,), growth=3.0, noise=0.1)
        run = rc.train("forecast", series, out=tmp_path / "run", **SERIES)
        assert run.settings.data.log
        kept = rc.train("forecast", series, out=tmp_path / "kept", **SERIES, log=False)
        assert not kept.settings.data.log

    def test_a_change_that_is_turned_off_leaves_the_baseline_out(self, tmp_path: Path) -> None:
        run = rc.train("forecast", rc.data.sines(200), out=tmp_path / "run", change=False, **SERIES)
        assert run.model.baseline is None
