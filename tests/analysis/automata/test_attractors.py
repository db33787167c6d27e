"""A network as a state machine: two bits that pulses set, states that drift, and the table that is found."""

import torch

from recurra import Recurrent
from recurra.analysis.automata.attractors import find_attractors, link_attractors, rest
from recurra.analysis.automata.finite import Moore
from recurra.analysis.jacobians import StepMap

REST = torch.zeros(2)
PULSES = torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])


def two_bits(own: float = 2.0) -> StepMap:
    """h ← tanh(own · h + 5 x): a pulse sets the sign of its unit."""
    layer = Recurrent("elman", 2, 2).double()
    with torch.no_grad():
        layer.stack[0][0].U.copy_(own * torch.eye(2))
        layer.stack[0][0].W.copy_(5 * torch.eye(2))
        layer.stack[0][0].b.zero_()
    return StepMap(layer)


def test_two_bits_are_four_states_and_a_pulse_sets_its_own() -> None:
    found = find_attractors(two_bits(), PULSES, REST, torch.tensor([0.5, -0.5]))
    assert len(found.states) == 4
    assert found.is_complete
    assert float(found.radii.max()) < 0.2
    signs = [tuple(row) for row in found.states.sign().int().tolist()]
    assert signs[0] == (1, -1)
    for k, (a, b) in enumerate(signs):
        expected = [(a, b), (1, b), (-1, b), (a, 1), (a, -1)]
        assert [signs[then] for then in found.after[k].tolist()] == expected


def test_a_state_that_only_drifts_is_no_attractor() -> None:
    F = two_bits(own=1.0)  # h ← tanh(h) comes to 0 as slowly as 1 / √t
    assert len(find_attractors(F, PULSES, REST, torch.tensor([0.5, -0.5]), steps=300).states) == 0
    _, still = rest(F, REST, torch.tensor([[0.5, -0.5], [0.0, 0.0]], dtype=F.dtype), steps=300)
    assert still.tolist() == [False, True]


def test_a_saddle_in_which_a_run_starts_is_no_state() -> None:
    found = find_attractors(two_bits(), PULSES, REST, torch.zeros(2))
    assert len(found.states) == 0
    assert not found.is_complete


def test_no_more_states_than_asked_for() -> None:
    found = find_attractors(two_bits(), PULSES, REST, torch.tensor([0.5, -0.5]), most=2)
    assert found.after.shape == (2, 5)
    assert not found.is_complete


def test_attractors_are_linked_to_the_states_of_a_machine() -> None:
    found = find_attractors(two_bits(), PULSES, REST, torch.tensor([0.5, -0.5]))
    names = ("none", "a+", "a-", "b+", "b-")
    first = Moore(names, ((0, 0, 1, 0, 0), (1, 0, 1, 1, 1)), ("+", "−"))  # what the first bit is, whatever the second
    linked = link_attractors(found, first)
    signs = found.states.sign()[:, 0].tolist()
    assert linked == [[k for k in range(4) if signs[k] == sign] for sign in (1, -1)]
