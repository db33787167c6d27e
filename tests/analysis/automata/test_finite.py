"""Finite machines: small ones by hand, random ones against brute force."""

from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recurra.analysis.automata.finite import Mealy, Moore
from recurra.errors import OptionError

BITS = ("0", "1")
ODD = Moore(BITS, ((0, 1), (1, 0)), ("even", "odd"))


@st.composite
def machines(draw: st.DrawFn, holes: bool = False) -> Moore:
    size = draw(st.integers(1, 6))
    then = st.integers(-1 if holes else 0, size - 1)
    after = draw(st.lists(st.tuples(then, then), min_size=size, max_size=size))
    says = draw(st.lists(st.sampled_from("ab"), min_size=size, max_size=size))
    return Moore(BITS, tuple(after), tuple(says))


def said(machine: Moore, string: tuple[int, ...]) -> str | None:
    """By hand; `None` where it is lost."""
    state = 0
    for symbol in string:
        state = machine.after[state][symbol]
        if state < 0:
            return None
    return machine.outputs[state]


def strings(length: int) -> list[tuple[int, ...]]:
    return [string for size in range(length + 1) for string in product(range(2), repeat=size)]


@given(machine=machines(holes=True))
def test_a_minimised_machine_says_the_same_and_no_two_of_its_states_are_alike(machine: Moore) -> None:
    small = machine.minimised()
    for string in strings(7):
        assert said(small, string) == said(machine, string)
    behaviours = {
        tuple(
            said(Moore(BITS, small.after, small.outputs), path + string) if path is not None else None
            for string in strings(6)
        )
        for path in [next(p for p in strings(6) if end(small, p) == state) for state in range(small.size)]
    }
    assert len(behaviours) == small.size <= machine.size
    assert small.minimised() == small


def end(machine: Moore, string: tuple[int, ...]) -> int:
    state = 0
    for symbol in string:
        state = machine.after[state][symbol] if state >= 0 else -1
    return state


@given(one=machines(), other=machines())
def test_the_difference_is_the_shortest_and_equal_machines_are_the_same_when_small(one: Moore, other: Moore) -> None:
    found = one.difference(other)
    assert (found is None) == (one.minimised() == other.minimised())
    if found is not None:
        assert said(one, found) != said(other, found)
        assert all(said(one, string) == said(other, string) for string in strings(min(len(found), 8) - 1))


@given(machine=machines(holes=True))
def test_many_strings_are_walked_at_once(machine: Moore) -> None:
    every = torch.tensor(list(product(range(2), repeat=5)))
    for row, states in zip(every.tolist(), machine.walk(every).tolist(), strict=True):
        assert states == [end(machine, tuple(row[:t])) for t in range(6)]


def test_a_difference_in_what_is_not_known_is_none() -> None:
    partly = Moore(BITS, ((0, 1), (-1, 0)), ("even", "odd"))
    assert partly.difference(ODD) is None
    assert not partly.is_complete
    assert ODD.difference(Moore(BITS, ((0, 0),), ("even",))) == (1,)
    with pytest.raises(OptionError, match="cannot be compared"):
        ODD.difference(Moore(("a", "b"), ((0, 0),), ("even",)))


def test_a_first_state_that_says_nothing_is_the_one_that_leads_alike() -> None:
    silent = Moore(BITS, ((1, 2), (1, 2), (2, 1)), (None, "even", "odd"))
    assert silent.minimised() == ODD
    alone = Moore(BITS, ((1, 1), (1, 2), (2, 1)), (None, "even", "odd"))
    assert alone.minimised().outputs == (None, "even", "odd")


def test_answers_on_ways_may_need_fewer_states() -> None:
    last = Moore(BITS, ((0, 1), (0, 1)), ("zero", "one"))  # says the last symbol
    assert last.minimised().size == 2
    mealy = last.answers()
    assert mealy == Mealy(BITS, ((0, 0),), (("zero", "one"),))
    assert mealy.difference(Mealy(BITS, ((0, 0),), (("zero", "two"),))) == (1,)


def test_strings_in_words() -> None:
    assert (ODD.spell(()), ODD.spell((1, 0))) == ("ε", "10")
    assert Moore(("Power", "Start"), ((0, 0),), ("on",)).spell((0, 1)) == "Power Start"
