"""Few series: what follows from their number, an ensemble that is cross-validated, and a network mixed with its baseline."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import recurra as rc
from recurra.tasks.run import Run

TINY = {"hidden_size": 4, "warmup": 1, "batch_size": 16, "validate_every": 2, "save_every": 2}


def waves(count: int, seed: int = 0) -> tuple[list[np.ndarray], list[str]]:
    """Slow or fast, with any phase: plain to kernels, and nothing that a network learns in four steps."""
    random = np.random.default_rng(seed)
    speeds = np.arange(count) % 2
    series = [np.sin((0.5 + 0.4 * k) * np.arange(40) + random.uniform(0, 6))[:, None] for k in speeds]
    return series, ["fast" if k else "slow" for k in speeds]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return rc.train("classify", waves(40), out=tmp_path_factory.mktemp("runs") / "run", steps=4, **TINY)


def test_few_series_are_cross_validated(run: Run) -> None:
    settings = run.settings
    assert (settings.training.ensemble, settings.data.valid, settings.training.steps) == (5, 0.0, 4)
    assert len(run.task.parts.train) == 36
    assert not len(run.task.parts.valid)
    assert np.bincount(run.task.folds).tolist() == [8, 7, 7, 7, 7]
    assert len(run.model.members) == 5


def test_what_is_given_stays(tmp_path: Path) -> None:
    one = rc.train("classify", waves(40), out=tmp_path / "one", steps=1, ensemble=1, combine="none", **TINY)
    assert (one.settings.data.valid, len(one.task.parts.valid)) == (0.1, 4)
    long = [np.random.default_rng(k).normal(size=(160, 1)) for k in range(20)], ["a", "b"] * 10
    pooled = rc.train("classify", long, out=tmp_path / "long", steps=1, ensemble=2, valid=0.2, combine="none", **TINY)
    assert (pooled.settings.model.convolution, pooled.settings.model.pool) == (7, 3)
    assert (pooled.settings.data.valid, pooled.task.folds) == (0.2, None)


def test_a_network_that_loses_is_mixed_with_its_baseline(run: Run) -> None:
    scores = run.evaluate().scores
    combined, alone, _, ridge, _ = scores.values()
    assert list(scores)[:2] == ["5 × gru-4 + kernel ridge", "5 × gru-4"]
    assert combined["accuracy"] >= ridge["accuracy"] == 1 > alone["accuracy"]
    assert float(run.model.share) > 0.5
    found = run.outcome.comparison
    assert found is not None
    assert found.lost_to == "kernel ridge"
    assert found.combined is not None
    assert found.combined > found.network


def test_it_predicts_without_its_data(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path / "copy")
    next((tmp_path / "copy").glob("data*")).unlink()
    series, labels = waves(10, seed=3)
    moved = rc.open(tmp_path / "copy", notice=lambda text: None)
    assert [row["label"] for row in moved.predict(series).rows] == labels
    note = moved.export("weights", tmp_path / "out").notes
    assert "first of 5 networks" in note[0]
    assert "of a baseline mixed in" in note[1]


def test_it_resumes_to_the_same_weights(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    advance = rc.training.Trainer.advance

    def stop(self: rc.training.Trainer, batch: object) -> None:
        advance(self, batch)
        self.asked_to_stop = "enough" if self.step == 3 else None

    with monkeypatch.context() as patch:
        patch.setattr(rc.training.Trainer, "advance", stop)
        cut = rc.train("classify", waves(40), out=tmp_path / "run", steps=4, **TINY)
    assert cut.outcome.step == 3
    again = rc.open(cut.path).resume().model.state_dict()
    assert again.keys() == run.model.state_dict().keys()
    assert all(torch.equal(value, again[name]) for name, value in run.model.state_dict().items())


def test_folds(tmp_path: Path) -> None:
    options = {"steps": 2, "ensemble": 1, "valid": 0.2} | TINY
    found = rc.train("classify", waves(24), out=tmp_path / "runs", folds=3, **options)
    assert found.counts == (8, 8, 8)
    assert list(found.scores[0])[:3] == ["the run", "the network alone", "the most frequent class"]
    assert found.mean("kernel ridge") == pytest.approx(
        np.mean([each["kernel ridge"]["accuracy"] for each in found.scores])
    )
    assert "± " in str(found)
    tested = [rc.open(tmp_path / f"runs/fold-{k}").task.parts.test.sequences for k in (1, 2, 3)]
    assert len({each.tobytes() for part in tested for each in part}) == 24  # every series is tested once
    shutil.rmtree(tmp_path / "runs/fold-2")
    assert rc.train("classify", waves(24), out=tmp_path / "runs", folds=3, **options) == found
    with pytest.raises(rc.OptionError, match="is of 3 folds, and 4"):
        rc.train("classify", waves(24), out=tmp_path / "runs", folds=4, **options)
    with pytest.raises(rc.OptionError, match="recipes that label sequences"):
        rc.train("tomita", folds=3)
