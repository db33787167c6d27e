"""Real targets: squared error, beside the mean and the line of least squares; gradients equal to sensitivities by hand."""

import numpy as np
import pytest
import torch

import recurra as rc
from recurra.errors import DataError
from recurra.tasks.regression import regression_loss

SMALL = {"hidden_size": 16, "steps": 200, "validate_every": 100, "warmup": 5, "learning_rate": 0.02}


def test_a_function_is_learned(tmp_path) -> None:
    run = rc.train("regression", count=300, out=tmp_path / "run", progress="none", **SMALL)
    network, line, mean = run.evaluate().scores.values()
    assert network["mean squared error"] < 0.2 * line["mean squared error"]
    assert line["mean squared error"] < mean["mean squared error"]
    assert mean["R²"] == pytest.approx(0, abs=0.05)
    assert network["R²"] == pytest.approx(1 - network["mean squared error"] / mean["mean squared error"], abs=0.05)
    found = run.predict()
    x, y = run.task.parts[2].x, run.task.parts[2].labels[:, 0]
    values = torch.tensor([row["sine"] for row in found.rows], dtype=torch.float64)
    assert float((values - y).square().mean()) == pytest.approx(network["mean squared error"], rel=1e-4)
    assert len(x) == len(found)


def test_a_table_of_ones_own_in_its_own_units(tmp_path) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 2))
    y = 1e4 + 500 * x[:, 0] - 300 * x[:, 1]
    rows = "\n".join(f"{a},{b},{c}" for (a, b), c in zip(x, y, strict=True))
    (tmp_path / "t.csv").write_text(f"a,b,price\n{rows}\n")
    how = {"kind": "linear", "steps": 300, "learning_rate": 0.05}
    run = rc.train("regression", data=tmp_path / "t.csv", out=tmp_path / "run", progress="none", **how)
    network, line, _ = run.evaluate().scores.values()
    assert line["mean squared error"] < 1e-6
    assert network["R²"] > 0.99
    (tmp_path / "new.csv").write_text("b,a\n0,1\n1,0\n")
    assert [row["price"] for row in run.predict(tmp_path / "new.csv").rows] == pytest.approx([10_500, 9_700], rel=0.01)
    (tmp_path / "bad.csv").write_text("a,b,price\n1,2,x\n")
    with pytest.raises(DataError, match="not a finite number"):
        rc.train("regression", data=tmp_path / "bad.csv", target="price", out=tmp_path / "no")


def test_its_gradient_is_that_of_sensitivities_by_hand() -> None:
    task = rc.RECIPES["regression"](layers=1, hidden_size=4, dtype="float64")
    model = task.untrained_model()
    batch = next(iter(task.make_batches(task.parts[1].take(range(6)), training=False).one_pass()))
    regression_loss(model, batch).backward()
    back = rc.lecture.feedforward_deltas(
        rc.lecture.layers_of(model), model.scaling(batch.inputs[:, 0]), batch.targets[:, 0]
    )
    torch.testing.assert_close(model.output.weight.grad, 6 * back.W[-1])
