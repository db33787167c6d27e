"""Synthetic parsed reviews: their shape, how rare words are, and values by another way."""

from collections import Counter

import pytest

from recurra.data.reviews import ACTS, CONTRAST, KEPT, WORDS, make_lexicon, reviews
from recurra.data.trees import Tree, is_binary_parse
from recurra.errors import OptionError


def value(tree: Tree, node: int, children: list[list[int]]) -> float:
    """Read as a person would: a word, an acting word before a phrase, two phrases with a contrast, two phrases."""
    token = tree.tokens[node]
    if token is not None:
        return make_lexicon(WORDS).values.get(token, 0.0)
    left, right = children[node]
    a, b = value(tree, left, children), value(tree, right, children)
    if tree.tokens[left] in ACTS:
        found = ACTS[str(tree.tokens[left])] * b
    elif children[right] and tree.tokens[children[right][0]] in CONTRAST:
        found = KEPT * a + b
    else:
        found = a + b
    return min(2.0, max(-2.0, found))


def test_labels_without_noise_are_the_values() -> None:
    seen: Counter[str | None] = Counter()
    for tree in reviews(150, noise=0.0):
        children: list[list[int]] = [[] for _ in tree.parents]
        for n, parent in enumerate(tree.parents[1:], start=1):
            children[parent].append(n)
        for n, label in enumerate(tree.labels):
            assert label == str(min(4, max(0, round(value(tree, n, children) / 0.7 + 2))))
        seen.update(tree.tokens)
    assert min(seen[word] for word in (*ACTS, *CONTRAST)) > 3


def test_they_look_like_parsed_sentences() -> None:
    trees = reviews(1500)
    assert all(is_binary_parse(tree) for tree in trees)
    sizes = [sum(token is not None for token in tree.tokens) for tree in trees]
    assert 5 <= min(sizes) < max(sizes) <= 50
    assert 17 < sum(sizes) / len(sizes) < 21
    words = Counter(token for tree in trees for token in tree.tokens if token is not None)
    assert sum(count == 1 for count in words.values()) > 0.4 * len(words)  # most words are rare
    nodes, roots = (Counter(labels) for labels in ((x for t in trees for x in t.labels), (t.labels[0] for t in trees)))
    assert nodes["2"] > 0.55 * sum(nodes.values())  # most nodes are neutral, and roots are not
    assert max(roots.values()) < 0.4 * len(trees)
    assert set(roots) == set("01234")


def test_a_seed_decides_and_words_keep_their_meaning() -> None:
    assert reviews(5, seed=3) == reviews(5, seed=3) != reviews(5, seed=4)
    first, second = (
        {token: label for tree in made for token, label in zip(tree.tokens, tree.labels, strict=True)}
        for made in (reviews(200, seed=seed, noise=0) for seed in (0, 1))
    )
    both = (first.keys() & second.keys()) - {None}
    assert len(both) > 100
    assert all(first[word] == second[word] for word in both)


def test_classes() -> None:
    assert {label for tree in reviews(50, classes=2) for label in tree.labels} == {"0", "1"}
    with pytest.raises(OptionError, match="classes 2"):
        reviews(5, classes=1)
