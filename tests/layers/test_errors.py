"""What a layer says to wrong names, sizes, types and states: what was asked, what was found, what to do."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from recurra import CATALOGUE, OptionError, Recurrent, ShapeError, recurrent_dropout, spectral_radius, zoneout
from tests.helpers import B, D, H


def layer(cell="lstm", **options):
    return Recurrent(cell, D, H, **options)


def one_line(caught):
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: layer(engine="egaer"), r"engine 'egaer' does not exist\. Did you mean 'eager'\? Known: .*auto"),
        (
            lambda: layer(merge="conct"),
            r"merge 'conct' does not exist\. Did you mean 'concat'\? Known: concat, mean, mul, sum",
        ),
        (lambda: layer(init="ortogonal"), r"init 'ortogonal' does not exist\. Did you mean 'orthogonal'\?"),
        (lambda: layer("lsmt"), r"cell 'lsmt' does not exist\. Did you mean 'lstm'\? .*FILE\.py:NAME"),
        (lambda: layer("skip(depth=3)"), r"cell 'skip' has no option 'depth'\..* Known: d\."),
        (lambda: layer(CATALOGUE["leaky"](alhpa=0.5)), r"has no option 'alhpa'\. Did you mean 'alpha'\?"),
        (lambda: layer("elman(activation=rleu)"), r"activation='rleu' is not an activation\. Did you mean 'relu'\?"),
        (lambda: layer("skip(4)"), r"the options in 'skip\(4\)' cannot be read\. Write them as NAME\(option=value"),
        (lambda: layer("skip(d=4"), r"is not a cell's name\. Write NAME"),
        (lambda: layer(torch.tanh), r"cell must be a cell or the name of one.*Decorate your function with @cell"),
        (
            lambda: layer(init="spectral_radius"),
            r"init='spectral_radius' cannot be read\. Write spectral_radius\(0\.9\)",
        ),
        (lambda: layer(init="spectral_radius(x)"), r"cannot be read\. Write spectral_radius\(0\.9\)"),
        (lambda: layer(init="spectral_radius(0.0)"), r"rho must be positive; got 0"),
        (
            lambda: layer(init=3),
            r"init must be the name of an initialiser or a function that fills a matrix in place; got 3",
        ),
        (lambda: layer(layers=1.5), r"layers must be a whole number; got 1\.5"),
        (lambda: Recurrent("gru", D, "5"), r"hidden_size must be a whole number; got '5'"),
        (lambda: Recurrent("gru", D, [5, 0]), r"hidden_size must be at least 1; got 0"),
        (lambda: Recurrent("gru", D, []), r"one cell and one size, but hidden_size has 0\. Give lists of one length"),
        (
            lambda: Recurrent("gru", D, [5, 5], layers=3),
            r"but hidden_size has 2, layers=3\. Give lists of one length, and leave",
        ),
        (
            lambda: Recurrent(["gru", "lstm"], D, [5, 5, 5]),
            r"but cell has 2, hidden_size has 3\. Give lists of one length",
        ),
        (
            lambda: Recurrent("gru", D, [5, 6], residual=True),
            r"residual adds a layer's input to its output, which needs equal sizes; hidden_size has 5, 6\. Make them equal",
        ),
        (lambda: layer(layers=0), r"layers must be at least 1; got 0"),
        (lambda: Recurrent("gru", 0, H), r"input_size must be at least 1; got 0"),
        (lambda: Recurrent("gru", D, -1), r"hidden_size must be at least 1; got -1"),
        (lambda: layer(dropout=1.0), r"dropout must lie in \[0, 1\); got 1\.0"),
        (lambda: layer(init=spectral_radius(0.0)), r"rho must be positive; got 0"),
        (lambda: layer(init=spectral_radius(0.9, density=0.0)), r"density must lie above 0 and not above 1; got 0"),
        (lambda: zoneout(CATALOGUE["lstm"], 1.5), r"p must lie in \[0, 1\); got 1\.5"),
        (lambda: zoneout(CATALOGUE["lstm"], {"C": 0.5}), r"'lstm' has no state 'C'\..*Known: c, h"),
        (lambda: recurrent_dropout(CATALOGUE["gru"], -0.1), r"p must lie in \[0, 1\); got -0\.1"),
        (
            lambda: layer()(torch.randn(B, 3, D), padding="strat"),
            r"padding 'strat' does not exist\. Did you mean 'start'\?",
        ),
    ],
)
def test_names_and_options(make, message):
    with pytest.raises(OptionError, match=message) as caught:
        make()
    one_line(caught)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (
            torch.randn(B, 3, 32),
            r"lstm expects inputs of size 4 \(input_size\); got \[3, 3, 32\]\. Pass input_size=32 or project",
        ),
        (torch.randn(3, D), r"lstm expects inputs \[B, T, D\].*got \[3, 4\]"),
        (torch.randn(D), r"lstm expects inputs \[B, T, D\].*got \[4\]"),
        (torch.randn(B, 0, D), r"lstm expects inputs \[B, T, D\] with at least one step; got \[3, 0, 4\]"),
        (
            torch.randn(B, 3, D, dtype=torch.float64),
            r"weights in torch\.float32; got inputs in torch\.float64\. Convert one",
        ),
        (
            torch.ones(B, 3, D, dtype=torch.int64),
            r"weights in torch\.float32; got inputs in torch\.int64\. Convert one",
        ),
        (
            np.zeros((B, 3, D), dtype=np.float32),
            r"lstm expects inputs \[B, T, D\] as a tensor; got ndarray\. Convert it with torch\.as_tensor\(x, dtype=torch\.float",
        ),
        ([[[1.0] * D]], r"as a tensor; got list\. Convert it with torch\.as_tensor"),
        (
            nn.utils.rnn.pack_padded_sequence(torch.randn(B, 3, D), torch.tensor([3, 2, 1]), batch_first=True),
            r"lstm expects inputs \[B, T, D\]; got a PackedSequence\. Pass the padded tensor and lengths=: .*pad_packed_sequence",
        ),
        (torch.empty(B, 3, D, device="meta"), r"weights on cpu; got inputs on meta\. Move one of them"),
    ],
)
def test_inputs(x, message):
    with pytest.raises(ShapeError, match=message) as caught:
        layer()(x)
    one_line(caught)


def test_inputs_of_a_step():
    with pytest.raises(ShapeError, match=r"expects inputs \[B, D\].*got \[3, 1, 4\]"):
        layer().step(torch.randn(B, 1, D))
    with pytest.raises(ShapeError, match=r"of size 4 \(input_size\); got \[3, 5\]. Pass input_size=5"):
        layer().step(torch.randn(B, 5))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([1, 2, 8], r"between 0 and T = 7; got 1 to 8"),
        ([-1, 2, 7], r"between 0 and T = 7; got -1 to 7"),
        ([1, 2], r"3 whole numbers, one for each sequence; got \[2\] of torch\.int64"),
        ([1.0, 2.0, 3.0], r"3 whole numbers.* of torch\.float32"),
        (torch.tensor([True, True, False]), r"3 whole numbers.* of torch\.bool"),
        (torch.ones(B, 7, dtype=torch.int64), r"3 whole numbers.*got \[3, 7\]"),
        (torch.tensor(3), r"3 whole numbers.*got \[\]"),
    ],
)
def test_lengths(lengths, message):
    with pytest.raises(ShapeError, match=message) as caught:
        layer()(torch.randn(B, 7, D), lengths=lengths)
    assert "lengths" in one_line(caught)


def zeros(*shape, **options):
    return torch.zeros(*shape, **options)


@pytest.mark.parametrize(
    ("cell", "state", "message"),
    [
        (
            "lstm",
            (zeros(B, H), zeros(B, H)),
            r"state\[layer\]\[direction\]\[i\] with 1 layer\(s\) and 1 direction\(s\)",
        ),
        ("lstm", (((zeros(B, H), zeros(B, H)),),) * 2, r"with 1 layer\(s\) and 1 direction\(s\)"),
        ("lstm", (((zeros(B, H), zeros(B, H)),) * 2,), r"with 1 layer\(s\) and 1 direction\(s\)"),
        ("lstm", (((zeros(B, H),),),), r"lstm has 2 state\(s\) \(h, c\)"),
        ("gru", ((zeros(B, H),),), r"gru has 1 state\(s\) \(h\) .*as a tuple"),
        ("lstm", (((zeros(B, H), zeros(B, H + 1)),),), r"state 'c' of lstm must be \[3, 5\]; got \[3, 6\]"),
        ("lstm", (((zeros(1, H), zeros(B, H)),),), r"state 'h' of lstm must be \[3, 5\]; got \[1, 5\]"),
        ("skip", (((zeros(B, H),),),), r"state 'h' of skip must be \[3, 4, 5\]; got \[3, 5\]"),
        ("lstm", (((zeros(B, H).double(), zeros(B, H)),),), r"state 'h' of lstm .*float64"),
        ("mingru", (((zeros(B, H).double(),),),), r"state 'h' of mingru .*float64"),
        ("gru", (((zeros(B, H, device="meta"),),),), r"state 'h' of gru .*meta"),
    ],
)
def test_states(cell, state, message):
    with pytest.raises(ShapeError, match=message) as caught:
        layer(cell)(torch.randn(B, 3, D), state)
    assert "trace.final" in one_line(caught) or ".to(" in one_line(caught)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Recurrent.from_torch(nn.Linear(2, 3)), r"takes nn\.LSTM, nn\.GRU or nn\.RNN; got Linear"),
        (lambda: Recurrent.from_torch(nn.LSTM(4, 5, proj_size=2)), r"proj_size.*Add a linear layer"),
        (lambda: layer("gru").to_torch(), r"torch\.nn has no layer with the equations of 'gru'; it has elman"),
        (lambda: layer(layers=2, residual=True).to_torch(), r"no counterpart of residual=True"),
        (lambda: layer(bidirectional=True, merge="sum").to_torch(), r"no counterpart of merge='sum'"),
        (lambda: layer(learn_initial=True).to_torch(), r"no counterpart of learn_initial"),
    ],
)
def test_conversions(make, message):
    with pytest.raises(OptionError, match=message):
        make()


def test_first_values_can_be_given_again():
    made = nn.Sequential(
        layer(init="spectral_radius(0.9, density=0.5)"), layer("elman", init="identity"), nn.Linear(2, 2)
    )
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.fill_(7.0)

    def reset_parameters(module):
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()

    made.apply(reset_parameters)
    radius = torch.linalg.eigvals(made[0].weight("U.i").double()).abs().max().item()
    assert abs(radius - 0.9) < 1e-5
    assert torch.equal(made[1].weight("U.h"), torch.eye(H))


def test_a_function_of_ones_own_gives_first_values_again_and_is_missed_after_pickling():
    own = layer("elman", init=lambda matrix: matrix.fill_(0.25))
    for each in (own, copy.deepcopy(own)):
        each.weight("U.h").data.zero_()
        each.stack[0][0].reset_parameters()
        assert (each.weight("U.h") == 0.25).all()
    again = pickle.loads(pickle.dumps(own))
    with pytest.raises(OptionError, match=r"unpickled without the function.* Pass it again: reset_parameters\(init\)"):
        again.stack[0][0].reset_parameters()
    again.stack[0][0].reset_parameters(torch.nn.init.zeros_)
    assert not again.weight("U.h").any()
    for init in ("orthogonal", "spectral_radius(0.9)"):
        pickle.loads(pickle.dumps(layer(init=init))).stack[0][0].reset_parameters()
