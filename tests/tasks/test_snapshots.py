"""Weights that are kept on the way: where, how many, and that they are the weights of those steps."""

import pytest
import torch

import recurra as rc
from recurra.runs.checkpoint import Checkpoint
from recurra.runs.folder import RunFolder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "snapped"
    return rc.train("tomita", steps=30, hidden_size=4, out=out, progress="none", **{"training.snapshots": 4})


def weights(run):
    return {name: value.clone() for name, value in run.model.state_dict().items()}


def test_evenly_spaced(run):
    assert run.snapshots == [8, 15, 22, 30]
    assert sorted(path.name for path in (run.path / "checkpoints").iterdir())[-4:] == [
        *("step-000008", "step-000015", "step-000022", "step-000030")
    ]


def test_they_are_the_weights_of_those_steps(run, tmp_path):
    """A run that stops there ends with the same weights."""
    short = rc.train(
        "tomita", steps=30, hidden_size=4, out=tmp_path / "short", progress="none", **{"training.snapshots": 30}
    )
    for step in run.snapshots:
        a, b = weights(run.at(step)), weights(short.at(step))
        assert all(torch.equal(a[name], b[name]) for name in a)
    first, last = weights(run.at(0)), weights(run.at(30))
    assert any(not torch.equal(first[name], last[name]) for name in first)
    assert all(torch.equal(value, weights(rc.open(run.path).at(0))[name]) for name, value in first.items())


def test_none_unless_asked(tmp_path):
    run = rc.train("tomita", steps=5, hidden_size=4, out=tmp_path / "plain", progress="none")
    assert run.snapshots == []
    with pytest.raises(rc.RunError, match=r"no snapshot of step 3\. Kept: none; set training\.snapshots"):
        run.at(3)


def test_a_damaged_one_is_refused(tmp_path):
    folder = RunFolder.create(tmp_path / "a", {"name": "mine"})
    folder.keep(Checkpoint(7, {"w": torch.ones(3)}))
    folder.keep(Checkpoint(7, {"w": torch.zeros(3)}))  # after a resume from before step 7
    assert torch.equal(folder.load_snapshot(7).weights["w"], torch.zeros(3))
    file = folder.path / "checkpoints" / "step-000007" / "weights.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(rc.RunError):
        folder.load_snapshot(7)
    (folder.path / "checkpoints" / "step-old").mkdir()
    assert folder.snapshots() == [7]
