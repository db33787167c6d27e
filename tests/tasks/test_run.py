"""`Run`: what the command line does, as methods whose results are objects; nothing that a task cannot do ends in a traceback."""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import recurra as rc
from recurra.results import Result, Table
from recurra.tasks.results import Sample

TEXT = "the cat sat on the mat. the dog sat on the log. "


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, rc.Run]:
    """Small runs of tasks that differ in what they are capable of."""
    place = tmp_path_factory.mktemp("runs")
    few: dict[str, Any] = {"progress": "none", "steps": 20}
    series = np.sin(np.arange(300) / 8)
    walks = [np.random.default_rng(k).normal(size=5 + k % 9).cumsum() for k in range(60)]
    labels = ["up" if walk[-1] > walk[0] else "down" for walk in walks]
    return {
        "text": rc.train(
            "text", [TEXT * 40] * 3, out=place / "text", hidden_size=8, batch_size=4, combine="none", **few
        ),
        "tomita": rc.train("tomita", out=place / "tomita", hidden_size=8, **few),
        "forecast": rc.train("forecast", series, out=place / "forecast", hidden_size=8, **few),
        "classify": rc.train("classify", (walks, labels), out=place / "classify", hidden_size=8, **few),
        "feedforward": rc.train("feedforward", out=place / "feedforward", **few),
    }


CALLS: dict[str, dict[str, Any]] = {
    "evaluate": {},
    "predict": {},
    "sample": {"length": 20, "seed": 0},
    "score": {"text": "the cat"},
    "forecast": {"steps": 5},
    "flag": {},
    "gradients": {"steps": 20},
    "spectra": {},
    "fixed_points": {"starts": 16},
    "field": {"starts": 16},
    "automaton": {"scored": 200},
    "mimic": {},
    "table": {"text": "the cat"},
    "regions": {},
    "resting_places": {},
    "translate": {"text": "a"},
}


@pytest.mark.parametrize("name", ["text", "tomita", "forecast", "classify", "feedforward"])
@pytest.mark.parametrize("method", CALLS)
def test_every_method_gives_a_result_or_one_line(runs: dict[str, rc.Run], name: str, method: str) -> None:
    found, refused = None, ""
    try:
        found = getattr(runs[name], method)(**CALLS[method])
    except rc.RecurraError as error:
        refused = str(error)
    assert "\n" not in refused
    if refused:
        return
    assert isinstance(found, Result)
    json.dumps(found.to_json(), allow_nan=False)
    assert str(found)
    assert found._repr_html_().startswith("<")
    assert all(isinstance(value, torch.Tensor) for value in found.arrays().values())


def test_what_a_run_can_do_is_in_its_text_and_in_refusals(runs: dict[str, rc.Run]) -> None:
    assert str(runs["text"]).endswith(
        "text, lstm-8; it can evaluate, sample, score, units, embeddings, orders, automaton"
    )
    with pytest.raises(
        rc.OptionError, match=r"forecasts how a series goes on; text is not one. It can: evaluate, sample"
    ):
        runs["text"].forecast()


class TestSample:
    def test_a_seed_gives_the_same_text(self, runs: dict[str, rc.Run]) -> None:
        texts = {str(runs["text"].sample("the ", 30, seed=seed)) for seed in (1, 1, 2)}
        assert len(texts) == 2
        assert all(text.startswith("the ") for text in texts)

    def test_generate_gives_it_as_it_is_produced(self, runs: dict[str, rc.Run]) -> None:
        parts = list(runs["text"].generate("the ", 10, seed=1))
        assert len(parts) == 10
        assert Sample("the ", "".join(parts)) == runs["text"].sample("the ", 10, seed=1)


class TestEvaluate:
    def test_other_data(self, runs: dict[str, rc.Run]) -> None:
        found = runs["text"].evaluate([TEXT * 30], baselines=False)
        assert list(found.scores) == ["lstm-8"]
        assert found.count == len(TEXT) * 30 - 1 or found.count == len(TEXT) * 30

    def test_options_that_a_task_does_not_take(self, runs: dict[str, rc.Run]) -> None:
        with pytest.raises(rc.OptionError, match=r"evaluate: window is not for tomita. It takes baselines"):
            runs["tomita"].evaluate(window=10)
        with pytest.raises(rc.OptionError, match="synthetic"):
            runs["tomita"].evaluate([1])

    def test_scores_are_kept_while_the_weights_stay(self, runs: dict[str, rc.Run]) -> None:
        found = runs["tomita"].evaluate()
        kept = rc.open(runs["tomita"].path).kept_scores()
        assert kept is not None
        assert kept.scores == found.scores


def test_predict_sequences_without_labels(runs: dict[str, rc.Run]) -> None:
    for data in ([np.ones(5), np.zeros(9)], [torch.ones(5)], np.ones((2, 7))):
        found = runs["classify"].predict(data)
        assert len(found) == len(data)
        assert {row["label"] for row in found.rows} <= {"up", "down"}


def test_data_of_a_call_is_removed_with_the_call(
    runs: dict[str, rc.Run], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run, there = rc.open(runs["classify"].path), []
    predict = run.task.predict  # type: ignore[attr-defined]
    monkeypatch.setattr(
        run.task, "predict", lambda *read: (there.append(len(list(tmp_path.iterdir()))), predict(*read))[1]
    )
    run.predict([np.ones(5)])
    assert there == [1]
    assert list(tmp_path.iterdir()) == []


def test_metrics_are_rows_for_pandas(runs: dict[str, rc.Run]) -> None:
    import pandas as pd

    frame = pd.DataFrame(runs["tomita"].metrics)
    assert list(frame["loss"].dropna().index) == list(range(20))
    assert runs["tomita"].summary()["step"] == 20


def test_resume_of_a_run_that_is_over(runs: dict[str, rc.Run]) -> None:
    before = {name: value.clone() for name, value in runs["tomita"].model.state_dict().items()}
    again = rc.open(runs["tomita"].path).resume(progress="none")
    assert again.outcome is not None
    assert again.outcome.step == 20
    assert all(torch.equal(value, again.model.state_dict()[name]) for name, value in before.items())
    with pytest.raises(TypeError, match="steps"):
        again.resume(steps=3)  # type: ignore[call-arg]


def test_a_run_without_a_checkpoint_says_so(tmp_path: Path) -> None:
    from recurra.tasks.run import Run

    run = Run.create(rc.RECIPES["tomita"](steps=2, hidden_size=4), tmp_path / "new")
    assert not run.is_trained
    with pytest.raises(rc.RunError, match=r"has no checkpoint yet\. Train it"):
        run.evaluate()
    assert run.spectra()  # of the model as it will start


def test_saved_results_are_read_again(runs: dict[str, rc.Run]) -> None:
    run = runs["tomita"]
    found = run.fixed_points(input="1", starts=16)
    run.save(found, "points")
    folder = run.path / "explain"
    assert json.loads((folder / "points.json").read_text()) == json.loads(json.dumps(found.to_json()))
    assert np.load(folder / "points.npz").files == list(found.arrays())
    assert (folder / "points.svg").exists()


def test_a_notebook_shows_results_and_pictures(runs: dict[str, rc.Run]) -> None:
    found = runs["tomita"].fixed_points(starts=16)
    assert found._repr_html_().startswith("<table>")
    assert found.plot()._repr_png_().startswith(b"\x89PNG")


def test_a_table_as_csv() -> None:
    assert Table(["a", "b"], [["1", "x, y"]], "title").to_csv() == 'a,b\n1,"x, y"\n'
