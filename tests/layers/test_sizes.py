"""Layers of different sizes and cells: everything that reads layers copes, or says that it asks for one size."""

import copy
import pickle

import pytest
import torch

import recurra as rc
from recurra.analysis.jacobians import StepMap
from recurra.analysis.neurons import read_unit, record_activity
from recurra.layers.rowwise import runs_by_rows
from recurra.models.first_state import FirstState
from tests.helpers import flatten

CELLS, SIZES = ["lstm", "gru", "skip(d=3)"], [7, 5, 4]


def layers(**options):
    torch.manual_seed(0)
    return rc.Recurrent(CELLS, 3, SIZES, **options)


def test_each_layer_has_its_own_size_and_cell():
    made = layers()
    assert made.hidden_sizes == (7, 5, 4)
    assert [cell.name for cell in made.cells] == ["lstm", "gru", "skip"]
    assert made.output_size == 4
    assert "['lstm', 'gru', 'skip'], 3, [7, 5, 4]" in repr(made)
    assert rc.Recurrent("lstm", 3, [7, 5]).cell is rc.find_cell("lstm")
    assert rc.Recurrent(["lstm", "gru"], 3, 7).hidden_size == 7
    assert rc.Recurrent("lstm", 3, (7, 5), layers=2).hidden_sizes == (7, 5)
    with pytest.raises(rc.OptionError, match=r"these layers have hidden_size 7, 5, 4, and one.*Read hidden_sizes"):
        made.hidden_size  # noqa: B018
    with pytest.raises(rc.OptionError, match=r"these layers have cell lstm, gru, skip, and one.*Read cells"):
        made.to_torch()


@pytest.mark.parametrize("engine", ["auto", "eager", "fused"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_they_are_layers_one_after_the_other(engine, bidirectional):
    made = layers(engine=engine, bidirectional=bidirectional, learn_initial=True)
    x, lengths = torch.randn(2, 6, 3), torch.tensor([6, 4])
    trace = made(x, lengths=lengths, record=True)
    y, finals = x, []
    for k, cell in enumerate(CELLS):
        one = rc.Recurrent(cell, y.shape[-1], SIZES[k], bidirectional=bidirectional, learn_initial=True)
        one.layers[0].load_state_dict(made.layers[k].state_dict())
        alone = one(y, lengths=lengths)
        y, finals = alone.outputs, [*finals, *alone.final]
    torch.testing.assert_close(trace.outputs, y)
    torch.testing.assert_close(flatten(trace.final), flatten(tuple(finals)))
    assert trace.record[1][0]["h"].shape == (2, 6, 5)
    again = made(x, trace.final).outputs
    again.sum().backward()
    assert all(parameter.grad is not None for parameter in made.parameters())
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert torch.equal(other(x, trace.final).outputs, again)
    assert made.explain(layer=2).engine.name in ("fused", "eager")


def test_steps_and_streams():
    made = layers()
    x = torch.randn(1, 8, 3)
    whole = made(x).outputs[0]
    stepper, state, stepped = rc.Stepper(made), None, []
    assert runs_by_rows(made)
    for t in range(8):
        y, state = made.step(x[:, t], state)
        stepped.append(y[0])
        torch.testing.assert_close(stepper.step(x[0, t]), y[0])
    torch.testing.assert_close(torch.stack(stepped), whole)
    stepper.reset()
    torch.testing.assert_close(stepper.chunk(x[0]), whole)


def test_analyses():
    made = layers()
    F = StepMap(made)
    assert F.size == 2 * 7 + 5 + 3 * 4
    x = torch.randn(1, 5, 3, dtype=torch.float64)
    s = F.visited(x)
    torch.testing.assert_close(F.outputs(s[:, -1]).float(), made(x.float()).outputs[:, -1])
    step = F.step(s[:, 2], x[:, 3])
    exact = torch.autograd.functional.jacobian(lambda v: F(v[None], x[:, 3])[0], s[0, 2])
    torch.testing.assert_close(step.state[0], exact)
    flow = rc.gradient_flow(made, torch.randn(30, 3), steps=8, warmup=5)
    assert set(flow.loss) == {"layer 0 h", "layer 0 c", "layer 1 h", "layer 2 h"}
    assert rc.find_fixed_points(made, starts=8, iterations=20).starts >= 8
    assert record_activity(made, torch.randn(1, 4, 3), gates=False).values.shape == (4, 2 * 7 + 5 + 4)
    assert read_unit("0.c.6", made).index == 6
    for wrong in ("1.c.0", "1.h.5", "3.h.0"):
        with pytest.raises(rc.OptionError, match="there is no unit"):
            read_unit(wrong, made)
    assert len(rc.analysis.recurrent_spectra(made).matrices) == 9
    assert rc.analysis.echo_state(made, torch.randn(40, 3)).distances.shape == (40,)


def test_models_and_their_export(tmp_path):
    model = rc.models.LanguageModel(11, rc.Recurrent(["lstm", "gru"], 6, [9, 6]), tied=True).eval()
    tokens = torch.randint(0, 11, (2, 5))
    assert model(tokens)[0].shape == (2, 5, 11)
    first = FirstState(4, layers())
    state = first.state(torch.randn(2, 4), layers())
    assert [tuple(each.shape) for each in flatten(state)] == [(2, 7), (2, 7), (2, 5), (2, 3, 4)]
    assert layers()(torch.randn(2, 3, 3), state).outputs.shape == (2, 3, 4)
    last = rc.models.Classifier(rc.Recurrent("gru", 3, [5, 4], bidirectional=True), classes=2, head="last")
    assert last(torch.randn(2, 6, 3)).shape == (2, 2)


def test_unrolling_says_what_it_needs():
    with pytest.raises(rc.OptionError, match="these layers have cell lstm, gru, skip, and one"):
        rc.lecture.unroll(layers(), steps=3)
