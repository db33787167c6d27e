"""Feed-forward models beside their formulas, written a second time in plain torch."""

import pytest
import torch

from recurra.errors import DataError, OptionError, ShapeError
from recurra.models.feedforward import (
    PHI,
    Convolutions,
    Feedforward,
    Layers,
    Polynomial,
    Radial,
    Scaling,
    basis_expansion,
    convolutional,
    hidden_layers,
    linear_classifier,
    multilayer,
    weights_of,
)

PLAIN = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "softplus": torch.nn.functional.softplus,
    "linear": lambda x: x,
}


def prepared(model: Feedforward, x: torch.Tensor) -> Feedforward:
    model = model.double().eval()
    model.prepare(x)
    return model


def scaled(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean(0)) / x.std(0, correction=0)


def test_a_linear_classifier_is_a_weighted_sum() -> None:
    x = torch.randn(20, 3, dtype=torch.float64) * 5 + 2
    model = prepared(linear_classifier((3,), 4), x)
    (W, b), *rest = weights_of(model)
    assert not rest
    torch.testing.assert_close(model(x), scaled(x) @ W.T + b)


@pytest.mark.parametrize("activation", PHI)
@pytest.mark.parametrize("residual", [False, True])
def test_layers_are_their_formula(activation: str, residual: bool) -> None:
    x = torch.randn(20, 3, dtype=torch.float64)
    model = prepared(multilayer((3,), 2, hidden_size=5, layers=3, activation=activation, residual=residual), x)
    y = scaled(x)
    *hidden, (V, c) = weights_of(model)
    assert len(hidden) == 3
    for k, (W, b) in enumerate(hidden):
        above = PLAIN[activation](y @ W.T + b)
        y = y + above if residual and k else above
    torch.testing.assert_close(model(x), y @ V.T + c)


def test_the_scaling_measures_and_a_constant_column_stays_finite() -> None:
    x = torch.randn(50, 3, dtype=torch.float64) * 3 + 7
    x[:, 1] = 4
    scaling = Scaling((3,)).double()
    scaling.measure(x)
    y = scaling(x)
    torch.testing.assert_close(y.mean(0), torch.zeros(3, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(y.std(0, correction=0), torch.tensor([1, 0, 1], dtype=torch.float64))


def test_bytes_of_images_are_scaled_by_channel() -> None:
    x = torch.randint(0, 256, (10, 3, 4, 5), dtype=torch.uint8)
    scaling = Scaling((3, 4, 5))
    scaling.measure(x)
    y = scaling(x)
    assert y.dtype == torch.float32
    torch.testing.assert_close(y.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)


def test_products_of_two_inputs() -> None:
    x, y = torch.randn(2, 9, dtype=torch.float64)
    basis = Polynomial(2, 3)(torch.stack([x, y], dim=1))
    expected = [x, y, x * x, x * y, y * y, x**3, x * x * y, x * y * y, y**3]
    torch.testing.assert_close(basis, torch.stack(expected, dim=1))
    with pytest.raises(OptionError, match=r"784 inputs have .* products of degree 3"):
        Polynomial(784, 3)


@pytest.mark.parametrize("learned", [False, True])
def test_radial_functions(learned: bool) -> None:
    x = torch.randn(30, 2, dtype=torch.float64)
    basis = Radial(2, 4, learned=learned).double()
    basis.place(x)
    assert all((centre == x).all(1).any() for centre in basis.centres)
    assert len(basis.centres.unique(dim=0)) == 4
    distances = torch.cdist(basis.centres.detach(), basis.centres.detach())
    width = 1.5 * distances.fill_diagonal_(torch.inf).min(1).values.mean()
    values = torch.stack([torch.exp(-(x - c).square().sum(1) / (2 * width**2)) for c in basis.centres], dim=1)
    torch.testing.assert_close(basis(x), values)
    assert len(list(basis.parameters())) == (2 if learned else 0)
    with pytest.raises(DataError, match="4 centres need as many different examples; there are 1"):
        basis.place(x[:1].expand(9, 2))


@pytest.mark.parametrize("pooling", ["max", "average", "none"])
@pytest.mark.parametrize("residual", [False, True])
def test_convolutions_are_sums_over_channels_and_places(pooling: str, residual: bool) -> None:
    """The convolution written as loops, on images of three channels and of odd size."""
    x = torch.randn(2, 3, 5, 7, dtype=torch.float64)
    part = Convolutions((3, 5, 7), (3,), "tanh", pooling=pooling, residual=residual).double()
    weight, bias = part.maps[0].weight, part.maps[0].bias
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1))
    made = torch.zeros(2, 3, 5, 7, dtype=torch.float64)
    for i in range(5):
        for j in range(7):
            made[:, :, i, j] = torch.einsum("bcij,ocij->bo", padded[:, :, i : i + 3, j : j + 3], weight) + bias
    made = made.tanh() + (x if residual else 0)
    if pooling != "none":
        squares = made[:, :, :4, :6].reshape(2, 3, 2, 2, 3, 2).transpose(3, 4).flatten(4)
        made = squares.amax(-1) if pooling == "max" else squares.mean(-1)
    torch.testing.assert_close(part(x), made.flatten(1))
    assert part.output_size == made[0].numel()


def test_a_convolutional_network_from_end_to_end() -> None:
    x = torch.randint(0, 256, (8, 3, 9, 8), dtype=torch.uint8)
    model = convolutional((3, 9, 8), 5, channels=(4, 6), hidden_size=7, layers=2, pooling="average")
    model.prepare(x)
    logits = model(x)
    assert logits.shape == (8, 5)
    logits.logsumexp(1).sum().backward()
    assert all(each.grad is not None and each.grad.abs().sum() > 0 for each in model.parameters())


def test_dropout_only_while_training() -> None:
    x = torch.randn(50, 3)
    model = multilayer((3,), 2, hidden_size=40, dropout=0.5)
    assert not torch.equal(model(x), model(x))
    model.eval()
    assert torch.equal(model(x), model(x))


def test_what_cannot_be_built_or_asked() -> None:
    with pytest.raises(ShapeError, match=r"convolution reads images \[C, H, W\]; one example here is \[4\]"):
        convolutional((4,), 2, channels=(3,))
    with pytest.raises(OptionError, match="images of 8 × 8 cannot be halved 4 times"):
        convolutional((1, 8, 8), 2, channels=(2, 2, 2, 2))
    with pytest.raises(OptionError, match="kernel must be odd"):
        convolutional((1, 8, 8), 2, channels=(2,), kernel=2)
    with pytest.raises(OptionError, match="'gelu' does not exist"):
        multilayer((2,), 2, hidden_size=3, activation="gelu")
    with pytest.raises(OptionError, match="at least two classes; got 1"):
        linear_classifier((2,), 1)
    with pytest.raises(OptionError, match=r"'poly' does not exist. Did you mean 'polynomial'"):
        basis_expansion((2,), 2, basis="poly")
    with pytest.raises(ShapeError, match=r"reads examples \[2\]; got a batch of \[3\]"):
        linear_classifier((2,), 2)(torch.zeros(5, 3))
    with pytest.raises(OptionError, match="basis functions or convolutions"):
        hidden_layers(basis_expansion((2,), 2))
    assert isinstance(hidden_layers(multilayer((2,), 2, hidden_size=3)), Layers)
    assert len(hidden_layers(linear_classifier((2,), 2)).maps) == 0
