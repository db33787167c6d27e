"""Decision trees: edges are counted, what scikit-learn grows is read right, and pruning only cuts what is of no use."""

import json

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from recurra.errors import OptionError
from recurra.models.decision_tree import DecisionTree, grow_tree

random = np.random.default_rng(0)


def full_tree() -> DecisionTree:
    """Both inputs are asked about, whatever the first answer is."""
    return DecisionTree(
        feature=np.array([0, 1, 1, -1, -1, -1, -1]),
        threshold=np.full(7, 0.5),
        no=np.array([1, 3, 5, 0, 0, 0, 0]),
        yes=np.array([2, 4, 6, 0, 0, 0, 0]),
        counts=np.array([[2, 2], [1, 1], [1, 1], [1, 0], [0, 1], [0, 1], [1, 0]]),
        features=("a", "b"),
        classes=("no", "yes"),
        binary=frozenset({0, 1}),
    )


SQUARE = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=float)


class TestPathLength:
    def test_of_a_full_tree_of_depth_2_is_2(self) -> None:
        assert full_tree().average_path_length(SQUARE) == 2.0
        assert full_tree().average_path_length(SQUARE[:1]) == 2.0

    def test_a_grown_full_tree_too(self) -> None:
        x = np.repeat(SQUARE, 30, axis=0)
        tree = grow_tree(x, (x[:, 0] != x[:, 1]).astype(int), ["a", "b"], ["same", "other"])
        assert tree.average_path_length(x) == 2.0
        assert tree.leaves == 4
        assert tree.fidelity(x, (x[:, 0] != x[:, 1]).astype(int)) == 1.0

    def test_is_a_mean_over_samples_not_over_leaves_or_numbers_of_nodes(self) -> None:
        tree = full_tree()._without(np.array([False, True, False, True, True, True, True]))  # a = 0 is a leaf now
        assert tree.average_path_length(SQUARE) == 1.5
        assert tree.average_path_length(SQUARE[[0, 1, 0, 2]]) == 1.25

    def test_of_one_leaf_is_0(self) -> None:
        tree = grow_tree(SQUARE, np.zeros(4, dtype=int), ["a", "b"], ["0", "1"], min_leaf=1)
        assert (tree.leaves, tree.average_path_length(SQUARE)) == (1, 0.0)
        assert tree.to_text() == "always 0 (4 of 4)\n"
        assert tree.to_json() == {"says": "0", "counts": {"0": 4, "1": 0}}


def data(classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    x = random.standard_normal((800, 4))
    said = np.clip(np.rint(x[:, 0] + 0.5 * (x[:, 1] > 0) + 0.3 * random.standard_normal(800)), 0, classes - 1)
    return x, said.astype(int)


NAMES = ["a", "b", "c", "d"]


class TestGrowing:
    @pytest.mark.parametrize("min_leaf", [1, 25])
    def test_leaves_are_those_of_scikit_learn(self, min_leaf: int) -> None:
        """Before pruning: each sample reaches the same leaf, and its path has as many edges as scikit-learn's nodes less one."""
        x, said = data()
        reference = DecisionTreeClassifier(min_samples_leaf=min_leaf, random_state=0).fit(x, said)
        nodes = reference.tree_
        inner = nodes.children_left >= 0
        tree = DecisionTree(
            np.where(inner, nodes.feature, -1),
            nodes.threshold,
            nodes.children_left,
            nodes.children_right,
            np.rint(nodes.value[:, 0] * nodes.n_node_samples[:, None]).astype(int),
            tuple(NAMES),
            ("0", "1", "2"),
        )
        assert np.array_equal(tree.leaf_of(x), reference.apply(x))
        assert np.array_equal(tree.predict(x), reference.predict(x))
        edges = np.asarray(reference.decision_path(x).sum(1)).ravel() - 1
        assert tree.average_path_length(x) == pytest.approx(edges.mean())

    def test_makes_no_more_errors_than_scikit_learn_and_asks_less(self) -> None:
        x, said = data()
        reference = DecisionTreeClassifier(min_samples_leaf=25, random_state=0).fit(x, said)
        tree = grow_tree(x, said, NAMES, ["0", "1", "2"])
        assert tree.fidelity(x, said) >= (reference.predict(x) == said).mean()
        assert tree.leaves < reference.get_n_leaves()
        assert tree.counts[tree.feature < 0].sum(1).min() >= 25

    def test_is_the_same_for_the_same_samples(self) -> None:
        x, said = data()
        one, other = (grow_tree(x, said, NAMES, ["0", "1", "2"]).to_text() for _ in range(2))
        assert one == other

    def test_classes_that_were_never_said(self) -> None:
        x, said = data(2)
        tree = grow_tree(x, 2 * said, NAMES, ["0", "1", "2", "3"])
        assert set(tree.predict(x)) <= {0, 2}

    def test_min_leaf(self) -> None:
        with pytest.raises(OptionError, match="min_leaf"):
            grow_tree(SQUARE, np.zeros(4, dtype=int), ["a", "b"], ["0", "1"], min_leaf=0)


class TestPruning:
    def test_by_hand(self) -> None:
        """The branch below a = 1 is of no use for these samples; the one below a = 0 is."""
        said = np.array([0, 1, 0, 0])
        tree = full_tree().pruned(SQUARE, said)
        assert tree.leaves == 3
        assert tree.average_path_length(SQUARE) == 1.5
        assert tree.fidelity(SQUARE, said) == 1.0

    def test_never_worse_on_the_samples_that_it_was_pruned_with(self) -> None:
        x, said = data()
        other, truth = data()
        tree = grow_tree(x, said, NAMES, ["0", "1", "2"], min_leaf=1)
        pruned = tree.pruned(other, truth)
        assert pruned.fidelity(other, truth) >= tree.fidelity(other, truth)
        assert pruned.leaves < tree.leaves
        assert pruned.pruned(other, truth).to_text() == pruned.to_text()


class TestInWords:
    def test_text(self) -> None:
        assert full_tree().to_text().splitlines() == [
            "a? yes",
            "│  b? yes → no (1 of 1)",
            "│  b? no → yes (1 of 1)",
            "a? no",
            "│  b? yes → yes (1 of 1)",
            "│  b? no → no (1 of 1)",
        ]

    def test_numbers_are_asked_with_their_threshold(self) -> None:
        x = np.linspace(0, 10, 100)[:, None]
        tree = grow_tree(x, (x[:, 0] > 4).astype(int), ["age"], ["young", "old"])
        assert tree.to_text().startswith("age > 3.99?")

    def test_dot(self) -> None:
        dot = full_tree().to_dot()
        assert dot.startswith("digraph tree {")
        assert dot.count("->") == 6
        assert '0 -> 2 [label="yes"];' in dot

    def test_dot_quotes_names(self) -> None:
        x = np.repeat(SQUARE[:2, 1:], 30, axis=0)
        assert '[label="\\"b\\"?"' in grow_tree(x, x[:, 0].astype(int), ['"b"'], ["0", "1"]).to_dot()

    def test_json_can_be_followed(self) -> None:
        tree = json.loads(json.dumps(full_tree().to_json()))
        for a, b in SQUARE:
            node = tree
            while "says" not in node:
                value = {"a": a, "b": b}[node["feature"]]
                node = node["yes" if value > node["greater_than"] else "no"]
            assert node["says"] == ("yes" if a != b else "no")
