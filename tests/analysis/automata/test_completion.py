"""What strings leave open: the first state of a machine that slips there, and ways that none of them took."""

import torch
from torch import Tensor

from recurra.analysis.automata.completion import completed, with_known_start
from recurra.analysis.automata.finite import Moore
from tests.analysis.automata.machines import Slipping

BITS = ("0", "1")
THREE = Moore(BITS, ((0, 1), (1, 2), (2, 0)), ("a", "b", "b"))  # ones, by three


def strings(count: int, seed: int) -> Tensor:
    return torch.randint(2, (count, 12), generator=torch.Generator().manual_seed(seed))


def test_a_first_state_that_slips_begins_where_it_mostly_leads() -> None:
    silent = Moore(BITS, ((1, 3), (1, 2), (2, 3), (3, 1)), (None, "a", "b", "b"))  # its 1 counts twice
    rare = torch.tensor([[0, 1]] * 9 + [[1, 1]])
    merged, kept = with_known_start(silent, rare)
    assert merged == THREE
    assert kept == silent
    assert with_known_start(THREE, rare) == [THREE]


def test_ways_that_were_not_taken_are_asked_for() -> None:
    network = Slipping(THREE, strings)
    partly = Moore(BITS, ((0, 1), (-1, 2), (2, -1)), ("a", "b", "b"))
    assert completed(partly, network, strings(50, 0)) == THREE
    assert completed(THREE, network, strings(50, 0)) == THREE


def test_what_never_follows_a_class_is_not_asked_for() -> None:
    network = Slipping(THREE, strings)
    without = torch.zeros(5, 6, dtype=torch.int64)  # only zeros: nothing but a is ever said, and 1 never follows it
    partly = Moore(BITS, ((0, -1),), ("a",))
    assert completed(partly, network, without) == partly
