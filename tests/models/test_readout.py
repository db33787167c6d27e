"""Numbers in, numbers out: the equation, step by step and whole."""

from typing import Any

import pytest
import torch

from recurra import Recurrent
from recurra.errors import ShapeError
from recurra.models.readout import Readout

B, T, D, H, O = 3, 7, 2, 5, 4
MODELS = [
    {},
    {"cell": "gru", "layers": 2},
    {"cell": "skip(d=3)", "learn_initial": True},
    {"residual": True, "layers": 2},
]


def make_model(**options: Any) -> Readout:
    own = {"input_dropout": options.pop("input_dropout")} if "input_dropout" in options else {}
    given = {"input_size": D, "cell": "elman", "hidden_size": H, "engine": "eager"} | options
    model = Readout(Recurrent(**given), O, **own).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.6)
    return model


def test_its_equation() -> None:
    """y_t = V h_t + c with h_t = tanh(W x_t + U h_{t−1} + b), written out."""
    model, x = make_model(), torch.randn(B, T, D).double()
    layer = model.recurrent.stack[0][0]
    h = torch.zeros(B, H).double()
    values, final = model(x)
    assert values.shape == (B, T, O)
    for t in range(T):
        h = torch.tanh(x[:, t] @ layer.W.T + layer.b + h @ layer.U.T)
        expected = h @ model.output.weight.T + model.output.bias
        torch.testing.assert_close(values[:, t], expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(final[0][0][0], h, rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", MODELS, ids=str)
def test_steps_equal_the_sequence(options: dict[str, Any]) -> None:
    model, x = make_model(**options), torch.randn(B, T, D).double()
    whole, final = model(x)
    state = None
    for t in range(T):
        values, state = model.step(x[:, t], state)
        torch.testing.assert_close(values, whole[:, t], rtol=0, atol=1e-12)
    assert state is not None
    for one, other in zip(state, final, strict=True):
        for a, b in zip(one[0], other[0], strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", MODELS, ids=str)
def test_what_lies_past_the_end_changes_nothing(options: dict[str, Any]) -> None:
    model, x = make_model(**options), torch.randn(B, T, D).double()
    lengths = torch.tensor([7, 3, 1])
    values, final = model(x, None, lengths)
    alone, last = model(x[1:2, :3])
    torch.testing.assert_close(values[1, :3], alone[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(final[0][0][0][1], last[0][0][0][0], rtol=0, atol=1e-12)


def test_dropout_of_inputs_is_for_training_only_and_holds_for_all_of_time() -> None:
    model, x = make_model(input_dropout=0.5, input_size=40), torch.ones(1, T, 40).double()
    plain = make_model(input_size=40)
    plain.load_state_dict(model.state_dict())
    assert torch.equal(model(x)[0], plain(x)[0])
    read: list[torch.Tensor] = []
    model.recurrent.register_forward_pre_hook(lambda module, given: read.append(given[0]))
    model.train()(x)
    assert set(read[0].unique().tolist()) == {0.0, 2.0}
    assert torch.equal(read[0], read[0][:, :1].expand_as(read[0]))


def test_inputs_of_another_size_are_refused() -> None:
    with pytest.raises(ShapeError, match="input_size"):
        make_model()(torch.randn(B, T, D + 1).double())
