"""Cells to test with, layers with weights away from their first values, and the comparison of two runs."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor

from recurra import (
    CATALOGUE,
    Cell,
    Fixed,
    Groups,
    Learned,
    Recurrent,
    State,
    Trace,
    ago,
    cell,
    clamp,
    cos,
    erf,
    exp,
    floor,
    gelu,
    log,
    maximum,
    minimum,
    norm,
    recurrent_dropout,
    relu,
    sigmoid,
    sign,
    silu,
    sin,
    softplus,
    sqrt,
    tanh,
    where,
    zoneout,
)
from recurra.engines.choose import ENGINES
from recurra.layers.front import Front
from recurra.models.labelling import Labeller
from recurra.models.language import LanguageModel
from recurra.models.translate import Translator
from recurra.types import Shape

B, D, H = 3, 4, 5


@cell
def two_speeds(x, U, fast, slow, *, rate=Learned(0.3, low=0, high=1)):
    """Two states remembered to different depths, a product of a gated state, and a bounded parameter."""
    mix = sigmoid(x.m + U.m(slow))
    new = tanh(x.f + U.f(mix * fast) - 0.5 * ago(slow, 3) + ago(fast, 2))
    return new, slow + rate * (new - slow)


@cell
def shared(x, U, h, c):
    """One matrix in two products of different arguments."""
    return tanh(x.a + U.w(h) * sigmoid(x.b + U.w(c))), tanh(U.v(h) - c)


@cell
def toolbox(x, U, h, *, scale=Fixed(Groups([0.5, 1.0, 1.5])), shift=Learned(0.2, low=-1), top=Learned(0.7, high=3)):
    """Every elementwise operation of the notation."""
    a, v = x.a, U.a(h)
    smooth = softplus(a) - silu(v) + gelu(h) + sin(a) * cos(v) + erf(a - v)
    rough = relu(a) + abs(v) - minimum(a, v) * maximum(a, 0.1) + clamp(v, -0.5, 0.5) + sign(a) * floor(v)
    roots = sqrt(1 + h * h) + log(2 + v**2) / exp(shift) + (a % 0.75) ** 2 + 1.5 ** (h - 1)
    ready = ((a < v) | ~(h <= 0.1)) & (a != 0)
    return tanh(scale * where(ready, smooth, rough) / 3 - top * roots / 4)


@cell
def normed(x, U, h, *, shift=Learned(0.1)):
    """Normalised values inside and outside a product; the second gain has no name."""
    inner = norm(x.a + U.a(h), "inner")
    return tanh(norm(U.b(inner) + x.b) + shift)


@cell
def autonomous(x, U, h, age):
    """No input at all, and a state that only counts."""
    return tanh(U.h(h) + 0.1 * age), age + 1


@cell
def memory(x, U, hidden, store):
    """An LSTM under other names, with operands in another order."""
    write = sigmoid(U.write(hidden) + x.write)
    what = tanh(x.what + U.what(hidden))
    read = sigmoid(x.read + U.read(hidden))
    keep = sigmoid(x.keep + U.keep(hidden))
    store = what * write + store * keep
    return tanh(store) * read, store


@cell
def updater(x, U, s, *, inner=Learned(0.3)):
    """A GRU with the reset after the product, under other names and in another order."""
    keep = sigmoid(U.keep(s) + x.keep)
    forget = sigmoid(x.forget + U.forget(s))
    candidate = tanh((inner + U.new(s)) * forget + x.new)
    return keep * s + candidate * (1 - keep)


INVENTED: dict[str, Cell] = {
    each.name: each for each in (two_speeds, shared, toolbox, normed, autonomous, memory, updater)
} | {
    "elman(relu)": CATALOGUE["elman"](activation="relu"),
    "elman(linear)": CATALOGUE["elman"](activation="linear"),
    "leaky(alpha=0.4)": CATALOGUE["leaky"](alpha=0.4),
    "skip(d=2)": CATALOGUE["skip"](d=2),
}
NOISY: dict[str, Cell] = {
    "zoneout(lstm)": zoneout(CATALOGUE["lstm"], 0.2),
    "recurrent_dropout(gru)": recurrent_dropout(CATALOGUE["gru"], 0.3),
}
CELLS: dict[str, Cell] = {**CATALOGUE, **INVENTED, **NOISY}


def supporting(name: str, cell: Cell, *, device: str = "cpu", dtype: torch.dtype = torch.float64, T: int = 33) -> bool:
    """Whether the engine of that name runs the cell at the sizes of these tests."""
    return bool(ENGINES[name].supports(cell, torch.device(device), dtype, Shape(B, T, D, H)))


def agreement_marks(engine: str, name: str) -> Any:
    """`newton` takes a hundred times as long as the others: here some cells, the rest in the long tests and in its own."""
    few = ("elman", "lstm", "skip", "mingru", "toolbox", "lstm_norm", "recurrent_dropout(gru)")
    return pytest.mark.slow if engine == "newton" and name not in few else ()


def engines_for(cell: Cell) -> list[str]:
    return [name for name in ENGINES if supporting(name, cell)]


def make_layer(cell: Cell | str, *, input_size: int = D, hidden_size: int = H, **options: object) -> Recurrent:
    """A layer in float64 whose parameters all have random values, so that none of them is 0 by chance."""
    layer = Recurrent(cell, input_size, hidden_size, dtype=torch.float64, **options)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(std=0.6)
    return layer


def random_state(layer: Recurrent, batch_size: int = B) -> State:
    """A state of random numbers, each tensor a leaf that takes a gradient."""
    return map_state(lambda s: torch.randn_like(s).requires_grad_(), layer.initial_state(batch_size))


def map_state(function: Callable[[Tensor], Tensor], state: State) -> State:
    return tuple(tuple(tuple(function(s) for s in one) for one in layer) for layer in state)


def flatten(state: State) -> list[Tensor]:
    return [s for layer in state for one in layer for s in one]


def loss_of(trace: Trace) -> Tensor:
    """A number that every output and every final state has its own weight in."""
    draw = torch.Generator().manual_seed(1)
    values = [trace.outputs, *flatten(trace.final)]
    weights = [torch.randn(v.shape, generator=draw, dtype=torch.float64).to(v) for v in values]
    return torch.stack([(v * w).sum() for v, w in zip(values, weights, strict=True)]).sum()


def run_all(
    layer: Recurrent,
    x: Tensor,
    state: State | None = None,
    lengths: Tensor | Sequence[int] | None = None,
    *,
    engine: str = "eager",
    padding: str = "end",
) -> dict[str, Tensor]:
    """Outputs, final states and every gradient of one run, by name; random masks are the same in each call."""
    layer.engine = engine
    layer.zero_grad()
    x = x.detach().clone().requires_grad_()
    state = None if state is None else map_state(lambda s: s.detach().clone().requires_grad_(), state)
    torch.manual_seed(7)
    trace = layer(x, state, lengths, padding=padding)
    loss_of(trace).backward()
    results = {"outputs": trace.outputs.detach()}
    results |= {f"final {k}": s.detach() for k, s in enumerate(flatten(trace.final))}
    leaves = {"x": x} | {f"state {k}": s for k, s in enumerate(flatten(state or ()))}
    for name, leaf in [*leaves.items(), *layer.named_parameters()]:
        results[f"gradient of {name}"] = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad.clone()
    return results


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float = 1e-10) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(
            found[name], value, rtol=tolerance, atol=tolerance, msg=lambda m, name=name: f"{name}: {m}"
        )


def compare_engines(
    layer: Recurrent,
    engine: str,
    x: Tensor,
    state: State | None = None,
    lengths: Tensor | Sequence[int] | None = None,
    *,
    against: str = "eager",
    tolerance: float = 1e-10,
) -> None:
    """Both engines give the same outputs, final states and gradients of inputs, weights and states."""
    assert_same(
        run_all(layer, x, state, lengths, engine=engine),
        run_all(layer, x, state, lengths, engine=against),
        tolerance,
    )


LANGUAGE_OPTIONS = ("tied", "input_dropout", "deep_input", "deep_output", "embedding_dropout", "softmax", "stop")


def make_language_model(
    vocabulary_size: int, cell: Any, hidden_size: int, *, embedding_size: int | None = None, **options: Any
) -> LanguageModel:
    """A language model in one line."""
    own = {name: options.pop(name) for name in LANGUAGE_OPTIONS if name in options}
    layers = Recurrent(cell, embedding_size or hidden_size, hidden_size, **options)
    return LanguageModel(vocabulary_size, layers, **own)


L = TypeVar("L", bound=Labeller)


def make_labeller(
    kind: type[L],
    input_size: int,
    classes: int,
    cell: Any,
    hidden_size: int,
    *,
    tokens: bool = False,
    bidirectional: bool = True,
    convolution: int | None = None,
    pool: int = 1,
    **options: Any,
) -> L:
    """A classifier or tagger in one line, of `input_size` numbers or of as many tokens."""
    own = {name: options.pop(name) for name in ("head", "noise", "shift", "input_dropout") if name in options}
    size = hidden_size if tokens else input_size
    front = None if convolution is None else Front(size, hidden_size, convolution, pool)
    reads = size if front is None else hidden_size
    layers = Recurrent(cell, reads, hidden_size, bidirectional=bidirectional, **options)
    return kind(layers, classes, vocabulary_size=input_size if tokens else None, front=front, **own)


def make_translator(
    source_size: int,
    target_size: int,
    cell: Any,
    hidden_size: int,
    *,
    decoder_cell: Any = None,
    embedding_size: int | None = None,
    bidirectional: bool = True,
    context: str = "attention",
    learn_initial: bool = False,
    **options: Any,
) -> Translator:
    """A translator in one line, its encoder and decoder alike."""
    own = {name: options.pop(name) for name in ("attention", "longest", "tied", "input_dropout") if name in options}
    encoder = Recurrent(
        cell,
        embedding_size or hidden_size,
        hidden_size,
        bidirectional=bidirectional,
        learn_initial=learn_initial,
        **options,
    )
    reads = encoder.input_size + (encoder.output_size if context in ("input", "both") else 0)
    starts = learn_initial and context == "input"  # otherwise what was read is the decoder's first state
    decoder = Recurrent(decoder_cell or cell, reads, hidden_size, learn_initial=starts, **options)
    return Translator(encoder, decoder, source_size, target_size, context=context, **own)
