"""Pictures of trees and of sweeps: nodes stand where they belong, and odd cases are drawn too."""

from pathlib import Path

import numpy as np
import pytest

from recurra.analysis.penalties import PenaltyPoint, PenaltySweep
from recurra.models.decision_tree import grow_tree
from recurra.plots.decision_tree import DRAWN, places
from tests.models.test_decision_tree import full_tree


def test_leaves_side_by_side_and_questions_above_the_middle_of_their_answers() -> None:
    tree = full_tree()
    x, y = places(tree)
    assert y.tolist() == [0, -1, -1, -2, -2, -2, -2]
    assert sorted(x[tree.feature < 0]) == [0, 1, 2, 3]
    for k in np.flatnonzero(tree.feature >= 0):
        assert x[k] == (x[tree.yes[k]] + x[tree.no[k]]) / 2
        assert x[tree.yes[k]] < x[tree.no[k]]


@pytest.mark.parametrize("leaves", [1, 4, DRAWN + 20])
def test_trees_of_any_size_are_drawn_on_both_grounds(leaves: int, tmp_path: Path) -> None:
    x = np.arange(leaves, dtype=float)[:, None]
    tree = grow_tree(x, np.arange(leaves) % 2, ["price in $"], ["a $ b", "c"], min_leaf=1)
    assert tree.leaves == leaves
    tree.plot(tmp_path / "tree", title="title")
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "tree-dark.png",
        "tree-dark.svg",
        "tree.png",
        "tree.svg",
    ]


def test_a_sweep_without_a_known_ceiling(tmp_path: Path) -> None:
    points = [PenaltyPoint("none", 0, 3.0, 0.0, 0.9, 0.0, True), PenaltyPoint("tree", 0.1, 1.0, 0.2, 0.89, 0.01, False)]
    for name in ("sweep", "again"):
        PenaltySweep(points, "accuracy").plot(tmp_path / name)
    assert (tmp_path / "sweep.png").read_bytes() == (tmp_path / "again.png").read_bytes()
