"""The form of what a run keeps: whatever is not so is named by its place."""

from typing import Any

import pytest

import recurra as rc
from recurra.errors import DataError, RunError
from recurra.models.markov_tables import check_sizes
from recurra.tasks.catalogue import RECIPES
from recurra.tasks.kept import check_kept
from recurra.tasks.task import Task

FORM = {"names": [str], "counts": {str: int}, "scale?": [float], "season": (int, type(None))}
GOOD: dict[str, Any] = {"names": ["a"], "counts": {"a": 3}, "season": None}


def test_what_fits() -> None:
    check_kept(GOOD, FORM, "it")
    check_kept(GOOD | {"scale": [1, 0.5], "season": 12, "more": object()}, FORM, "it")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"names": "a"}, "it['names'] is 'a', and a list is expected there"),
        ({"names": ["a", 3]}, "it['names'][1] is 3, and a text is expected there"),
        ({"counts": {"a": True}}, "it['counts']['a'] is True, and a whole number is expected"),
        ({"counts": {"a": 10**400}}, "it['counts']['a'] is 1000"),
        ({"counts": []}, "it['counts'] is [], and an object is expected there"),
        ({"scale": [float("nan")]}, "it['scale'][0] is nan, and a finite number is expected"),
        ({"scale": [1e308]}, "it['scale'][0] is 1e+308, and a finite number is expected"),
        ({"season": "x"}, "it['season'] is 'x', and a whole number or null is expected there"),
    ],
)
def test_what_does_not(change: dict[str, Any], said: str) -> None:
    with pytest.raises(RunError) as caught:
        check_kept(GOOD | change, FORM, "it")
    assert str(caught.value).startswith(said)


def test_what_is_missing() -> None:
    with pytest.raises(RunError, match="it has no 'season', which a run of this kind keeps"):
        check_kept({"names": [], "counts": {}}, FORM, "it")


def test_every_task_that_keeps_something_says_what() -> None:
    silent = {
        name
        for name, recipe in RECIPES.items()
        if recipe.task.make_vocabulary is not Task.make_vocabulary and recipe.task.keeps is dict
    }
    assert silent == set()
    assert rc.RECIPES


@pytest.mark.parametrize("sizes", [[[3]], [[3, 2, 1]], [[-1, 2]], [[10**12, 2]]])
def test_sizes_that_no_counts_have(sizes: list[list[int]]) -> None:
    kept = {"activities": ["", "a"], "values": {}, "mean": [], "scale": [], "gap": [], "markov": sizes}
    chosen = RECIPES["events"]
    with pytest.raises(DataError, match="which no counts have"):
        chosen.task(chosen.settings, vocabulary=kept).make_model()


def test_sizes_that_take_too_much_memory() -> None:
    with pytest.raises(DataError, match="20,000,000 runs of tokens"):
        check_sizes([[10**8, 1], [10**8, 10**8]])


def test_the_largest_seed() -> None:
    RECIPES["feedforward"].configure({"seed": 2**63 - 1, "data.count": 8}).make_vocabulary()
