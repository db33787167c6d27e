"""How a strength is chosen from a sweep of penalties, and what the sweep shows."""

from pathlib import Path

import pytest

from recurra.benchmarks.penalties import PenaltyBenchmark, Trained, average, best_possible, choose
from recurra.tasks.catalogue import find_recipe
from recurra.tasks.mimic import TreeScores
from recurra.tasks.settings import override


def judged(score: float, path: float, leaves: int = 4) -> TreeScores:
    return TreeScores(score, 0.9, path, leaves, 0.95, 0.85)


def trained(penalty: str, strength: float, seed: int, score: float, path: float, leaves: int = 4) -> Trained:
    one = judged(score, path, leaves)
    return Trained(penalty, strength, seed, one, one, one, 0.5 if penalty == "tree" else None, 1.0)


def test_means_over_seeds() -> None:
    points = average([trained("none", 0, 0, 0.9, 3), trained("none", 0, 1, 0.94, 4)])
    assert len(points) == 1
    assert points[0].test["score"] == pytest.approx(0.92)
    assert points[0].test["path_length"] == 3.5
    assert points[0].spread["path_length"] == pytest.approx(0.5**0.5)


def test_the_shortest_that_costs_little_and_asks_something() -> None:
    runs = [
        trained("none", 0, 0, 0.95, 3.5),
        trained("l2", 1, 0, 0.95, 3.0),
        trained("l2", 3, 0, 0.90, 1.0),
        trained("tree", 0.01, 0, 0.95, 3.0),
        trained("tree", 0.05, 0, 0.94, 1.5),
        trained("tree", 0.1, 0, 0.935, 0.0, leaves=1),
        trained("tree", 0.2, 0, 0.92, 0.5),
        trained("l1", 9, 0, 0.5, 0.5),
    ]
    chosen = choose(average(runs))
    assert {name: point.strength for name, point in chosen.items()} == {"none": 0, "l2": 1, "tree": 0.05}


def test_the_ceiling_is_known_of_synthetic_data() -> None:
    recipe = override(find_recipe("signal-and-noise").settings, ["data.test=200"])
    found = best_possible(recipe, [0])
    assert found is not None
    assert 0.94 < found < 0.98
    assert best_possible(find_recipe("tag").settings, [0]) is None


def test_table_and_files(tmp_path: Path) -> None:
    runs = [trained("none", 0, 0, 0.95, 3.5), trained("tree", 0.05, 0, 0.94, 1.5)]
    sweep = PenaltyBenchmark("tag", "AUC", 0.97, {"none": 0, "tree": 0.05}, tuple(average(runs)), tuple(runs))
    assert [row[:4] for row in sweep.table().rows] == [["none", "0", "*", "0.9500"], ["tree", "0.05", "*", "0.9400"]]
    assert str(sweep).endswith("best possible (Bayes): 0.9700")
    assert set(sweep.to_json()) == {"recipe", "score", "best_possible", "chosen", "points", "runs"}
    pytest.importorskip("matplotlib")
    sweep.save(tmp_path / "new")
    assert (tmp_path / "new/penalties.csv").read_text().splitlines()[2].startswith("tree,0.05,*,0.9400,1.50")
