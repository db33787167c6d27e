"""What lies past a sequence's end changes nothing: not the outputs before it, not the final state, not a gradient."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recurra import CATALOGUE, cell, log, tanh
from tests.helpers import (
    D,
    agreement_marks,
    assert_same,
    engines_for,
    flatten,
    make_layer,
    map_state,
    random_state,
    run_all,
    two_speeds,
)


@cell
def steep(x, U, h):
    """Its derivatives are infinite where the drive is zero, as it is past the end while biases are zero."""
    return tanh(0.1 * log(abs(x.h)) + U.h(h) / x.d)


CELLS = {name: CATALOGUE[name] for name in ("lstm", "gru", "gru_after", "elman", "skip", "clockwork", "mingru")} | {
    "two_speeds": two_speeds,
    "steep": steep,
}
PAIRS = [
    pytest.param(cell, engine, id=f"{engine}-{name}", marks=agreement_marks(engine, name))
    for name, cell in CELLS.items()
    for engine in engines_for(cell)
]
every_cell_and_engine = pytest.mark.parametrize(("cell", "engine"), PAIRS)


@st.composite
def batches(draw):
    """A length of time, the true lengths (any of them may be 0 or all of it), and whether both directions run."""
    T = draw(st.integers(1, 7))
    lengths = draw(st.lists(st.integers(0, T), min_size=1, max_size=3))
    return T, torch.tensor(lengths), draw(st.booleans())


def build(cell, lengths, T, bidirectional):
    layer = make_layer(cell, hidden_size=3, layers=2 if bidirectional else 1, bidirectional=bidirectional)
    if cell is steep:
        with torch.no_grad():
            for one in (each for directions in layer.stack for each in directions):
                one.b.zero_()
    x = torch.randn(len(lengths), T, D, dtype=torch.float64)
    return layer, x, random_state(layer, len(lengths))


def outside(lengths, T):
    return (torch.arange(T) >= lengths[:, None])[:, :, None]


@every_cell_and_engine
@given(batch=batches(), junk=st.sampled_from([1e3, -7.0, float("nan"), float("inf"), -float("inf")]))
def test_what_lies_past_the_end_changes_nothing(cell, engine, batch, junk):
    T, lengths, bidirectional = batch
    layer, x, state = build(cell, lengths, T, bidirectional)
    spoilt = torch.where(outside(lengths, T), junk, x)
    found = run_all(layer, spoilt, state, lengths, engine=engine)
    assert_same(found, run_all(layer, x, state, lengths, engine=engine), 0.0)
    assert all(value.isfinite().all() for value in found.values())
    assert torch.all(found["outputs"].masked_select(outside(lengths, T)) == 0)
    assert torch.all(found["gradient of x"].masked_select(outside(lengths, T)) == 0)


@every_cell_and_engine
@given(batch=batches())
def test_padding_may_be_at_the_start(cell, engine, batch):
    T, lengths, bidirectional = batch
    layer, x, state = build(cell, lengths, T, bidirectional)
    shifts = [T - int(n) for n in lengths]

    def rolled(value):
        return torch.stack([row.roll(shift, 0) for row, shift in zip(value, shifts, strict=True)])

    at_end = run_all(layer, x, state, lengths, engine=engine)
    spoilt = torch.where(outside(lengths, T), float("nan"), x)
    trace = layer(rolled(spoilt), state, lengths, padding="start")
    torch.testing.assert_close(trace.outputs, rolled(at_end["outputs"]), rtol=1e-12, atol=1e-12)
    for k, last in enumerate(flatten(trace.final)):
        torch.testing.assert_close(last, at_end[f"final {k}"], rtol=1e-12, atol=1e-12)


@every_cell_and_engine
def test_padding_at_the_start_has_the_same_gradients(cell, engine):
    lengths, T = torch.tensor([2, 0, 5]), 5
    layer, x, state = build(cell, lengths, T, True)
    layer.engine = engine

    def gradients(inputs, padding):
        trace = layer(inputs, state, lengths, padding=padding)
        loss = trace.outputs.square().sum() + sum(s.square().sum() for s in flatten(trace.final))
        leaves = [inputs, *flatten(state), *layer.parameters()]
        return torch.autograd.grad(loss, leaves, materialize_grads=True)

    back = x.clone()
    back[0] = x[0].roll(3, 0)
    at_end, at_start = gradients(x.requires_grad_(), "end"), gradients(back.requires_grad_(), "start")
    torch.testing.assert_close(at_start[0][0].roll(-3, 0), at_end[0][0], rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(at_start[0][1:], at_end[0][1:], rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(at_start[1:], at_end[1:], rtol=1e-11, atol=1e-11)


@every_cell_and_engine
@given(batch=batches())
def test_a_batch_equals_its_sequences_one_by_one(cell, engine, batch):
    T, lengths, bidirectional = batch
    layer, x, state = build(cell, lengths, T, bidirectional)
    layer.engine = engine
    trace = layer(x, state, lengths)
    for lane, end in enumerate(lengths.tolist()):
        mine = map_state(lambda s, lane=lane: s[lane : lane + 1], state)
        last = mine
        if end:
            alone = layer(x[lane : lane + 1, :end], mine)
            torch.testing.assert_close(trace.outputs[lane : lane + 1, :end], alone.outputs, rtol=1e-12, atol=1e-12)
            last = alone.final
        for found, expected in zip(flatten(trace.final), flatten(last), strict=True):
            torch.testing.assert_close(found[lane : lane + 1], expected, rtol=1e-12, atol=1e-12)


@every_cell_and_engine
def test_an_empty_sequence_keeps_its_state(cell, engine):
    lengths, T = torch.tensor([0, 0]), 3
    layer, x, state = build(cell, lengths, T, True)
    layer.engine = engine
    trace = layer(x, state, lengths)
    assert torch.all(trace.outputs == 0)
    for found, given_state in zip(flatten(trace.final), flatten(state), strict=True):
        assert torch.equal(found, given_state)


def test_lengths_may_be_a_list_and_full_lengths_change_nothing():
    layer, x, state = build(CELLS["lstm"], torch.tensor([4, 4]), 4, True)
    assert torch.equal(
        layer(x, state, [4, 4]).outputs, layer(x, state, torch.tensor([4, 4], dtype=torch.int32)).outputs
    )
    torch.testing.assert_close(layer(x, state, [4, 4]).outputs, layer(x, state).outputs, rtol=1e-12, atol=1e-12)


def test_the_reverse_direction_starts_at_the_true_end():
    """The last true step of the reverse direction is its first: it has seen no other."""
    layer, x, _ = build(CELLS["gru"], torch.tensor([3]), 6, True)
    lengths = torch.tensor([3])
    record = layer(x, lengths=lengths, record=True).record[0][1]["h"]
    alone = layer(x[:, 2:3], record=True).record[0][1]["h"]
    torch.testing.assert_close(record[:, 2], alone[:, 0], rtol=1e-12, atol=1e-12)
