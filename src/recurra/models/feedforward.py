"""Networks that read an example as a whole: linear classifier, basis expansion, layers, convolutions.

Each is logits = V φ(x) + c. They differ in φ: x itself, fixed or learned basis functions, layers, or convolutions below layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement

import torch
from torch import Tensor, nn

from recurra.cells.operations import ACTIVATIONS
from recurra.errors import DataError, OptionError, ShapeError, choose_from, quoted
from recurra.layers.dropout import check_share
from recurra.types import Float

PHI = ("tanh", "sigmoid", "relu", "softplus", "linear")
"""The activations."""
POOLING = ("max", "average", "none")
OVERLAP = 1.5
"""How far radial functions reach, in distances between neighbours. 1 leaves gaps between them, 3 blurs the arms of a spiral."""


class Scaling(nn.Module):
    """(x − mean) / deviation, per input or per channel. It is measured on training data, kept with the weights, not learned."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, shape: Sequence[int]):
        super().__init__()
        sizes = (shape[0], *[1] * (len(shape) - 1))
        self.register_buffer("mean", torch.zeros(sizes))
        self.register_buffer("deviation", torch.ones(sizes))

    @torch.no_grad()
    def measure(self, x: Tensor) -> None:
        """Take mean and deviation from data; an input that never changes keeps its size."""
        values, axes = x.double(), [0, *range(2, x.ndim)]
        mean, deviation = values.mean(axes, keepdim=True)[0], values.std(axes, keepdim=True, correction=0)[0]
        self.mean.copy_(mean)
        self.deviation.copy_(torch.where(deviation > 1e-12 * mean.abs().clamp(min=1), deviation, 1.0))

    def forward(self, x: Tensor) -> Tensor:
        return (x.to(self.mean.dtype) - self.mean) / self.deviation


class Activation(nn.Module):
    """φ, by name."""

    def __init__(self, name: str):
        super().__init__()
        self.name = choose_from("activation", name, PHI)

    def forward(self, x: Tensor) -> Tensor:
        value: Tensor = ACTIVATIONS[self.name](x)
        return value

    def extra_repr(self) -> str:
        return self.name


class Polynomial(nn.Module):
    """All products of up to `degree` inputs: fixed basis functions. For two inputs and degree 2: x, y, x², xy, y²."""

    powers: Tensor

    def __init__(self, size: int, degree: int):
        super().__init__()
        if degree < 1:
            raise OptionError(f"degree must be at least 1; got {degree}.")
        count = math.comb(size + degree, degree) - 1
        if count > 100_000:
            raise OptionError(f"{size} inputs have {count:,} products of degree {degree}. Lower model.degree.")
        chosen = [each for k in range(1, degree + 1) for each in combinations_with_replacement(range(size), k)]
        powers = torch.zeros(len(chosen), size, dtype=torch.int64)
        for row, each in enumerate(chosen):
            for k in each:
                powers[row, k] += 1
        self.register_buffer("powers", powers, persistent=False)
        self.output_size = len(chosen)

    def forward(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B P"]:
        return (x[:, None] ** self.powers).prod(-1)


class Radial(nn.Module):
    """exp(−‖x − c‖² / 2 s²) for each of some centres c. Fixed, or learned: then c and s are parameters.

    Centres are training examples; s is at first `OVERLAP` times the mean distance of a centre to the one that is nearest.
    Broomhead & Lowe 1988.
    """

    centres: Tensor
    log_width: Tensor

    def __init__(self, size: int, centres: int, *, learned: bool = False):
        super().__init__()
        if centres < 1:
            raise OptionError(f"centres must be at least 1; got {centres}.")
        for name, value in (("centres", torch.zeros(centres, size)), ("log_width", torch.zeros(centres))):
            if learned:
                self.register_parameter(name, nn.Parameter(value))
            else:
                self.register_buffer(name, value)
        self.output_size = centres

    @torch.no_grad()
    def place(self, x: Float[Tensor, "N D"]) -> None:
        """Put the centres on examples that are drawn, none twice."""
        different = x.unique(dim=0)
        if len(different) < len(self.centres):
            raise DataError(
                f"{len(self.centres)} centres need as many different examples; there are {len(different)}. "
                "Lower model.centres."
            )
        self.centres.copy_(different[torch.randperm(len(different))[: len(self.centres)]])
        apart = torch.cdist(self.centres, self.centres).fill_diagonal_(math.inf).min(1).values
        self.log_width.fill_(float((OVERLAP * apart.mean()).log()) if len(apart) > 1 else 0.0)

    def forward(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B P"]:
        squares = (x[:, None] - self.centres).square().sum(-1)
        return torch.exp(-0.5 * squares * torch.exp(-2 * self.log_width))


class Layers(nn.Module):
    """y ← φ(W y + b), `layers` times. With `residual`, from the second on: y ← y + φ(W y + b). Dropout after each."""

    def __init__(
        self,
        size: int,
        hidden_size: int,
        layers: int,
        activation: str,
        *,
        residual: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        if hidden_size < 1 or layers < 0:
            raise OptionError(
                f"hidden_size must be at least 1 and layers not negative; got {hidden_size} and {layers}."
            )
        self.activation, self.residual = Activation(activation), residual
        sizes = [size, *[hidden_size] * layers]
        self.maps = nn.ModuleList(nn.Linear(sizes[k], sizes[k + 1]) for k in range(layers))
        self.dropout = nn.Dropout(check_share("dropout", dropout))
        self.output_size = sizes[-1]
        for each in self.maps:
            _initialise(each, activation)

    def forward(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B H"]:
        for k, each in enumerate(self.maps):
            y = self.dropout(self.activation(each(x)))
            x = x + y if self.residual and k else y
        return x


class Convolutions(nn.Module):
    """φ of a convolution, then pooling over squares of 2 × 2, for each entry of `channels`; the last maps are flattened.

    Every filter reads all maps below it and adds up what it finds: that is how several input channels become one map. With
    `residual`, a convolution that leaves the number of maps as it was adds its input. LeCun et al. 1989; He et al. 2016.
    """

    def __init__(
        self,
        shape: Sequence[int],
        channels: Sequence[int],
        activation: str,
        *,
        kernel: int = 3,
        pooling: str = "max",
        residual: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        choose_from("pooling", pooling, POOLING)
        if len(shape) != 3:
            raise ShapeError(
                f"convolution reads images [C, H, W]; one example here is {quoted(list(shape))}. Use another kind."
            )
        if not channels or min(channels) < 1:
            raise OptionError(f"channels must be one or more positive numbers; got {quoted(list(channels))}.")
        if kernel < 1 or kernel % 2 == 0:
            raise OptionError(f"kernel must be odd, so that it has a centre; got {kernel}.")
        maps, height, width = shape
        halved = len(channels) if pooling != "none" else 0
        if min(height, width) < 2**halved:
            raise OptionError(
                f"images of {height} × {width} cannot be halved {halved} times. Give fewer channels, or pooling=none."
            )
        self.activation, self.residual = Activation(activation), residual
        sizes = [maps, *channels]
        self.maps = nn.ModuleList(
            nn.Conv2d(sizes[k], sizes[k + 1], kernel, padding=kernel // 2) for k in range(len(channels))
        )
        kinds: dict[str, nn.Module] = {"max": nn.MaxPool2d(2), "average": nn.AvgPool2d(2), "none": nn.Identity()}
        self.pool = kinds[pooling]
        self.dropout = nn.Dropout(check_share("dropout", dropout))
        self.output_size = sizes[-1] * (height >> halved) * (width >> halved)
        for each in self.maps:
            _initialise(each, activation)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B P"]:
        for each in self.maps:
            y = self.activation(each(x))
            x = self.dropout(self.pool(x + y if self.residual and x.shape == y.shape else y))
        return x.flatten(1)


class Feedforward(nn.Module):
    """Scores of classes from an example that is read as a whole: scaled, through features φ, through a linear map.

    ```python
    x = torch.randn(100, 2)
    model = rc.models.multilayer((2,), classes=2, hidden_size=32, layers=2, activation="relu")
    model.prepare(x)                                   # the scaling, from training data
    logits = model(x)                                  # [N, 2]
    ```

    The linear classifier predicts the sign of wᵀx for two classes: the class with the larger logit is the side of a hyperplane.
    """

    def __init__(self, shape: Sequence[int], features: nn.Module, output_size: int, classes: int):
        super().__init__()
        if classes < 2:
            raise OptionError(f"a classifier needs at least two classes; got {classes}.")
        self.shape, self.scaling, self.features = tuple(shape), Scaling(shape), features
        self.output = nn.Linear(output_size, classes)
        _initialise(self.output, "linear")

    def prepare(self, x: Tensor) -> None:
        """What is taken from training data before it is learned from: the scaling, and the centres of radial functions."""
        self.scaling.measure(x)
        for part in self.features.modules():
            if isinstance(part, Radial):
                part.place(self.scaling(x).flatten(1))

    def forward(self, x: Tensor) -> Float[Tensor, "B V"]:
        if tuple(x.shape[1:]) != self.shape:
            raise ShapeError(f"the model reads examples {list(self.shape)}; got a batch of {list(x.shape[1:])}.")
        logits: Tensor = self.output(self.features(self.scaling(x)))
        return logits


def linear_classifier(shape: Sequence[int], classes: int) -> Feedforward:
    """logits = V x + c.

    ```python
    rc.models.linear_classifier([2], 3)(torch.randn(4, 2))          # logits [4, 3]
    ```
    """
    return Feedforward(shape, nn.Flatten(), math.prod(shape), classes)


def basis_expansion(
    shape: Sequence[int], classes: int, *, basis: str = "polynomial", degree: int = 3, centres: int = 64
) -> Feedforward:
    """A linear classifier of basis functions: `polynomial` and `radial` ones are fixed, those of `learned` are radial too, and
    move.

    ```python
    rc.models.basis_expansion([2], 3, basis="radial", centres=10)(torch.randn(4, 2))    # logits [4, 3]
    ```
    """
    choose_from("basis", basis, ("polynomial", "radial", "learned"))
    size = math.prod(shape)
    made = Polynomial(size, degree) if basis == "polynomial" else Radial(size, centres, learned=basis == "learned")
    return Feedforward(shape, nn.Sequential(nn.Flatten(), made), made.output_size, classes)


def multilayer(
    shape: Sequence[int],
    classes: int,
    *,
    hidden_size: int,
    layers: int = 1,
    activation: str = "relu",
    residual: bool = False,
    dropout: float = 0.0,
) -> Feedforward:
    """Layers that learn their own features.

    ```python
    rc.models.multilayer([2], 3, hidden_size=16, layers=2)(torch.randn(4, 2))           # logits [4, 3]
    ```
    """
    made = Layers(math.prod(shape), hidden_size, layers, activation, residual=residual, dropout=dropout)
    return Feedforward(shape, nn.Sequential(nn.Flatten(), made), made.output_size, classes)


def convolutional(
    shape: Sequence[int],
    classes: int,
    *,
    channels: Sequence[int],
    kernel: int = 3,
    pooling: str = "max",
    hidden_size: int = 64,
    layers: int = 1,
    activation: str = "relu",
    residual: bool = False,
    dropout: float = 0.0,
) -> Feedforward:
    """Convolutions and pooling, then layers.

    ```python
    rc.models.convolutional([1, 8, 8], 3, channels=[4])(torch.randn(2, 1, 8, 8))        # logits [2, 3]
    ```
    """
    below = Convolutions(
        shape, channels, activation, kernel=kernel, pooling=pooling, residual=residual, dropout=dropout
    )
    above = Layers(below.output_size, hidden_size, layers, activation, residual=residual, dropout=dropout)
    return Feedforward(shape, nn.Sequential(below, above), above.output_size, classes)


def for_numbers(model: Feedforward, outputs: int = 1) -> Feedforward:
    """The same network with another last map: `outputs` real numbers instead of scores of classes.

    ```python
    model = rc.models.for_numbers(rc.models.multilayer([2], 2, hidden_size=16))
    model(torch.randn(4, 2))                                        # numbers [4, 1]
    ```
    """
    if outputs < 1:
        raise OptionError(f"outputs must be at least 1; got {outputs}.")
    model.output = nn.Linear(model.output.in_features, outputs)
    _initialise(model.output, "linear")
    return model


def hidden_layers(model: Feedforward) -> Layers:
    """The layers of a network that has nothing else: where sensitivities and regions are asked for."""
    parts = [part for part in model.features.children() if not isinstance(part, nn.Flatten)]
    if not parts and isinstance(model.features, nn.Flatten):
        return Layers(math.prod(model.shape), 1, 0, "linear")
    if len(parts) == 1 and isinstance(parts[0], Layers):
        return parts[0]
    raise OptionError("this is asked of a network of layers; the model has basis functions or convolutions.")


def weights_of(model: Feedforward) -> list[tuple[Float[Tensor, "J I"], Float[Tensor, " J"]]]:
    """W and b of each of a network's layers, that of the logits last; they read `model.scaling(x)`."""
    maps = [each for each in (*hidden_layers(model).maps, model.output) if isinstance(each, nn.Linear)]
    return [(each.weight.detach(), each.bias.detach()) for each in maps]


def _initialise(module: nn.Module, activation: str) -> None:
    """Weights that keep the size of what passes: He et al. 2015 for those that cut off, Glorot & Bengio 2010 for the rest."""
    assert isinstance(module, (nn.Linear, nn.Conv2d))
    if activation in ("relu", "softplus"):
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    else:
        nn.init.xavier_normal_(module.weight)
