"""Formal languages: the automata say what the definitions say, are as small as they can be, and strings are drawn as promised."""

import re
from itertools import product

import pytest
import torch

from recurra.data.formal import FormalLanguage, dyck, tomita
from recurra.errors import OptionError


def odd_ones_before_odd_zeros(text: str) -> bool:
    return any(len(ones) % 2 and len(zeros) % 2 for ones, zeros in re.findall("(1+)(0+)", text))


DEFINITIONS = {
    1: lambda text: "0" not in text,
    2: lambda text: re.fullmatch("(10)*", text) is not None,
    3: lambda text: not odd_ones_before_odd_zeros(text),
    4: lambda text: "000" not in text,
    5: lambda text: text.count("0") % 2 == 0 and text.count("1") % 2 == 0,
    6: lambda text: (text.count("0") - text.count("1")) % 3 == 0,
    7: lambda text: re.fullmatch("0*1*0*1*", text) is not None,
}
SIZES = {1: 2, 2: 3, 3: 5, 4: 4, 5: 4, 6: 3, 7: 5}


def label(language: FormalLanguage, text: str) -> str:
    ids = [language.start, *(language.symbols.index(symbol) for symbol in text)]
    return language.classes[int(language.labels(torch.tensor([ids]))[0, -1])]


def told_apart(language: FormalLanguage, length: int) -> int:
    """How many states differ in what some string of up to `length` symbols leads them to say."""
    behaviours = set()
    for state in range(len(language.after)):
        said, reached = [], [state]
        for _ in range(length + 1):
            said += [language.outputs[now] for now in reached]
            reached = [language.after[now][k] for now in reached for k in range(len(language.symbols))]
        behaviours.add(tuple(said))
    return len(behaviours)


@pytest.mark.parametrize("number", range(1, 8))
class TestTomita:
    def test_every_short_string_is_judged_as_defined(self, number: int) -> None:
        language = tomita(number)
        for length in range(10):
            for text in map("".join, product("01", repeat=length)):
                assert label(language, text) == ("yes" if DEFINITIONS[number](text) else "no"), text

    def test_it_is_as_small_as_it_can_be(self, number: int) -> None:
        assert len(tomita(number).after) == SIZES[number] == told_apart(tomita(number), 5)

    def test_strings_are_balanced_and_of_every_length(self, number: int) -> None:
        language = tomita(number)
        strings, classes, lengths = language.draw(4000, 20, seed=3)
        assert strings.shape == classes.shape == (4000, 21)
        assert (strings[:, 0] == language.start).all()
        ends = classes.gather(1, lengths[:, None] - 1)[:, 0]
        assert int(ends.sum()) == 2000
        assert torch.equal(classes, language.labels(strings))
        assert set(lengths[ends == 0].tolist()) >= set(range(5, 22))
        assert ((strings == language.start).sum(1) == 22 - lengths).all()  # the sign, and what lies past the end

    def test_long_strings_are_balanced_too(self, number: int) -> None:
        strings, classes, lengths = tomita(number).draw(1000, 100, exactly=True)
        assert lengths.unique().tolist() == [101]
        assert int(classes[:, -1].sum()) == 500
        assert bool((strings[:, 1:] < 2).all())


def test_strings_of_a_length_are_drawn_alike() -> None:
    language = tomita(4)
    strings, _, _ = language.draw(20_000, 4, seed=0, exactly=True)
    known, counts = strings[:10_000].unique(dim=0, return_counts=True)
    assert len(known) == sum("000" not in "".join(text) for text in product("01", repeat=4)) == 13
    assert float((counts / 10_000 - 1 / 13).abs().max()) < 0.015


def test_half_of_what_is_not_in_the_language_is_a_near_miss() -> None:
    strings, classes, _ = tomita(1).draw(1000, 20, seed=0, exactly=True)
    zeros = (strings[500:] == 0).sum(1)
    assert (classes[500:, -1] == 0).all()
    assert int((zeros == 1).sum()) == 250


def test_a_seed_says_what_comes() -> None:
    first, again, other = (tomita(3).draw(50, 20, seed)[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def judged(text: str, kinds: int, depth: int) -> str:
    """With a stack, as one would by hand."""
    opening, closing, stack = "([{<"[:kinds], ")]}>"[:kinds], []
    for sign in text:
        if sign in opening:
            stack.append(opening.index(sign))
        elif not stack or stack.pop() != closing.index(sign):
            return "broken"
        if len(stack) > depth:
            return "broken"
    return "open" if stack else "closed"


@pytest.mark.parametrize(("kinds", "depth"), [(1, 1), (1, 4), (2, 3), (3, 2)])
def test_brackets_are_judged_as_by_a_stack(kinds: int, depth: int) -> None:
    language = dyck(kinds, depth)
    assert len(language.after) == sum(kinds**d for d in range(depth + 1)) + 1 == told_apart(language, depth + 1)
    for length in range(7 if kinds < 3 else 5):
        for text in map("".join, product(language.symbols, repeat=length)):
            assert label(language, text) == judged(text, kinds, depth), text
    _, classes, lengths = language.draw(400, 20, seed=0)
    ends = classes.gather(1, lengths[:, None] - 1)[:, 0]
    assert int((ends == 2).sum()) == 200


def test_what_does_not_exist_is_refused() -> None:
    with pytest.raises(OptionError, match="1 to 7"):
        tomita(8)
    with pytest.raises(OptionError, match="kinds"):
        dyck(5, 2)
    with pytest.raises(OptionError, match="depth"):
        dyck(2, 0)
    with pytest.raises(OptionError, match="states"):
        dyck(4, 10)
    with pytest.raises(OptionError, match="count"):
        tomita(1).draw(0, 5)
