"""Synthetic trees: their values by another way, their depths, and that seeds decide."""

import re
from collections import Counter

import pytest

from recurra.data.tree_tasks import synthetic
from recurra.data.trees import Tree, write_expression
from recurra.errors import OptionError


def plain(tree: Tree) -> str:
    return write_expression(Tree(tree.tokens, tree.parents, [None] * len(tree.parents)))


def depth(tree: Tree) -> int:
    level = [0]
    for parent in tree.parents[1:]:
        level.append(level[parent] + 1)
    return max(level)


@pytest.mark.parametrize("task", ["listops", "logic"])
def test_the_depth_that_was_asked_for(task: str) -> None:
    assert [depth(tree) for tree in synthetic(task, 60, [1, 4, 6], 0)] == [1, 4, 6] * 20


@pytest.mark.parametrize("task", ["listops", "logic"])
def test_a_seed_decides(task: str) -> None:
    first, again, other = (synthetic(task, 20, [3], seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_values_of_list_operations() -> None:
    """The brackets as Python calls."""

    def med(*items: int) -> int:
        ordered = sorted(items)
        middle = len(items) // 2
        return ordered[middle] if len(items) % 2 else (ordered[middle - 1] + ordered[middle]) // 2

    known = {"MAX": lambda *v: max(v), "MIN": lambda *v: min(v), "MED": med, "SM": lambda *v: sum(v) % 10}
    seen: Counter[str] = Counter()
    for tree in synthetic("listops", 300, [1, 2, 4], 0):
        called = re.sub(r"\((\w+) ", r"\1(", plain(tree)).replace(" ", ",")
        assert tree.labels[0] == str(eval(called, dict(known)))
        seen.update(token for token in tree.tokens if token in known)
        widths = Counter(tree.parents[1:]).values()
        assert min(widths) >= 2
        assert max(widths) <= 5
    assert min(seen[name] for name in known) > 100


def test_values_of_formulas() -> None:
    known = {"and_": lambda a, b: a and b, "or_": lambda a, b: a or b, "implies": lambda a, b: not a or b}
    known |= {"not_": lambda a: not a, "true": True, "false": False}
    values: Counter[str | None] = Counter()
    for tree in synthetic("logic", 300, [1, 2, 5], 0):
        text = re.sub(r"\b(and|or|not)\b", r"\1_", plain(tree))
        called = re.sub(r"\((\w+) ", r"\1(", re.sub(r"[a-d]=([01])", r"\1", text)).replace(" ", ",")
        assert (tree.labels[0] == "true") == bool(eval(called, dict(known)))
        given = {token for token in tree.tokens if token and "=" in token}
        assert len({token[0] for token in given}) == len(given)  # a variable has one value
        values[tree.labels[0]] += 1
    assert min(values["true"], values["false"]) > 60


def test_labels_are_of_every_node() -> None:
    (tree,) = synthetic("listops", 1, [3], 5)
    leaves = [n for n in range(len(tree.parents)) if n not in tree.parents]
    assert [tree.labels[n] for n in leaves] == [tree.tokens[n] for n in leaves]
    assert None not in tree.labels


def test_deep_ones_that_are_tested_were_never_learned() -> None:
    learned = {plain(tree) for tree in synthetic("listops", 5000, [1, 2, 3, 4], 0)}
    tested = [plain(tree) for tree in synthetic("listops", 1000, [4, 6], 2)]
    assert not learned & set(tested)


@pytest.mark.parametrize(("count", "depths"), [(0, [1]), (1, []), (1, [-1])])
def test_refused(count: int, depths: list[int]) -> None:
    with pytest.raises(OptionError, match="count must be at least 1"):
        synthetic("listops", count, depths, 0)


def test_an_unknown_task() -> None:
    with pytest.raises(OptionError, match="Did you mean 'listops'"):
        synthetic("listop", 1, [1], 0)
