"""A model as a plain network: inputs, maps, layers of cells and outputs, with the weights that they have now.

Models are modules; what leaves is this. Every exporter reads the same few kinds of values, so that a model is described once
and a format is written once. Values of a step are `[B, T, size]` (tokens `[B, T]`); those of a whole sequence `[B, size]`.

| kind | what it is |
|---|---|
| `tokens`, `numbers` | an input of each step: whole numbers below `size`, or `size` real numbers |
| `label`, `vector` | an input of a whole sequence: one of `size` classes, or `size` real numbers |
| `memory` | an input that another sequence gave: `size` real numbers of each of its steps |
| `embedding` | the row of `table` that a token names |
| `linear` | `weight` v, plus `bias` if there is one |
| `tanh`, `relu`, `sigmoid` | of each number |
| `add`, `multiply`, `concat` | of several values of the same step |
| `known`, `missing` | NaN as 0; 1 where there is a NaN and 0 elsewhere |
| `one` | the number 1 beside the argument, for readouts that have no bias of their own |
| `layer` | a cell run through time, from the end of the sequence if `reverse`; its outputs are the first state |
| `spread` | a value of the whole sequence, at each step |
| `convolution`, `pool` | over a window of steps, with relu; the maximum over `factor` steps |
| `last`, `first`, `mean`, `max`, `attention` | one vector of all steps |
| `attend` | for each step, a mean of what another sequence gave |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor, nn

from recurra.errors import OptionError
from recurra.layers.adaptive_softmax import AdaptiveSoftmax
from recurra.layers.deep import DeepLinear, StopLinear
from recurra.layers.direction import Direction
from recurra.layers.recurrent import Recurrent
from recurra.models.classify import Classifier
from recurra.models.conditioned import ConditionedLanguageModel
from recurra.models.events import EventModel
from recurra.models.first_state import FirstState
from recurra.models.forecast import Forecaster
from recurra.models.jordan import Jordan
from recurra.models.labelling import Labeller
from recurra.models.language import LanguageModel
from recurra.models.lengths import LengthLanguageModel
from recurra.models.readout import Readout
from recurra.models.reservoir import EchoState
from recurra.models.sequence import SequenceModel
from recurra.models.tag import Tagger
from recurra.models.translate import Translator

INPUTS = ("tokens", "numbers", "label", "vector", "memory")
OF_ALL_STEPS = ("convolution", "pool", "last", "first", "mean", "max", "attention")
"""What needs more than one step at a time, so that it cannot stream."""


@dataclass(frozen=True, eq=False)
class Value:
    """One value of a network. `name` is that of an input, or of a layer: its number, with `_reverse` for the second direction."""

    kind: str
    size: int
    arguments: tuple[Value, ...] = ()
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    name: str = ""
    direction: Direction | None = None
    factor: int = 1

    @property
    def reverse(self) -> bool:
        """Whether a layer runs from the end of each sequence."""
        return self.name.endswith("_reverse")

    @property
    def is_whole(self) -> bool:
        """Whether there is one for a whole sequence, and not one for each step."""
        if self.kind in ("label", "vector", "last", "first", "mean", "max", "attention"):
            return True
        return self.kind not in ("spread", *INPUTS) and bool(self.arguments) and all(v.is_whole for v in self.arguments)


@dataclass(frozen=True, eq=False)
class Network:
    """What is read, and what comes out by name."""

    outputs: Mapping[str, Value]

    @property
    def values(self) -> list[Value]:
        """Every value, after what it is computed from."""
        order: dict[Value, None] = {}

        def enter(value: Value) -> None:
            if value not in order:
                for argument in value.arguments:
                    enter(argument)
                order[value] = None

        for output in self.outputs.values():
            enter(output)
        return list(order)

    @property
    def inputs(self) -> list[Value]:
        return [value for value in self.values if value.kind in INPUTS]

    @property
    def layers(self) -> list[Value]:
        return [value for value in self.values if value.kind == "layer"]

    @property
    def dtype(self) -> torch.dtype:
        return next((w.dtype for v in self.values for w in _tensors(v) if w.is_floating_point()), torch.float32)

    @property
    def cannot_stream(self) -> str | None:
        """Why it cannot be run step by step; `None` where it can."""
        for value in self.values:
            if value.kind in OF_ALL_STEPS:
                return f"it takes the {value.kind} of all steps"
            if value.kind == "layer" and value.reverse:
                return "it reads sequences from their end as well"
        return None


@dataclass(frozen=True)
class StateSlot:
    """A state of a layer: `shape` is `[H]`, or `[K, H]` (oldest first) where the cell reads K > 1 steps back."""

    name: str
    layer: Value
    place: int
    shape: tuple[int, ...]
    initial: Tensor


def state_slots(network: Network) -> list[StateSlot]:
    """The states of all layers, under flat names: `h_0` is the state h of the first layer, `c_1_reverse` the second layer's c in
    the direction that runs backward."""
    found = []
    for layer in network.layers:
        direction = layer.direction
        assert direction is not None
        with torch.no_grad():
            firsts = direction.first_state(1)
        for k, (state, first) in enumerate(zip(direction.cell.graph.states, firsts, strict=True)):
            shape = (state.depth, direction.hidden_size) if state.depth > 1 else (direction.hidden_size,)
            found.append(StateSlot(f"{state.name}_{layer.name}", layer, k, shape, first[:, 0].reshape(shape)))
    return found


def describe(model: nn.Module) -> dict[str, Network]:
    """The networks of a model: one called `model`, or the `encoder` and the `decoder` of a translator."""
    with torch.no_grad():
        made = _describe(model)
    return {"model": made} if isinstance(made, Network) else made


@singledispatch
def _describe(model: nn.Module) -> Network | dict[str, Network]:
    raise OptionError(
        f"export: {type(model).__name__} is neither a Recurrent nor a model of recurra.models that reads sequences. "
        "Export its recurrent layers, and keep the rest in your own code."
    )


@_describe.register
def _(model: Recurrent) -> Network:
    return Network({"y": _recurrent(Value("numbers", model.input_size, name="x"), model)})


@_describe.register
def _(model: LanguageModel) -> Network:
    if isinstance(model.output, AdaptiveSoftmax):
        raise OptionError("a model with softmax=adaptive cannot be exported. Train it with softmax=full.")
    return Network(_with_stop(model, _predicted(model, _embedding(model.embedding, "tokens"))))


def _with_stop(model: LanguageModel, logits: Value) -> dict[str, Value]:
    """The logits of tokens; where the end is told apart, `stop` is its probability, and logits are of the others."""
    if not isinstance(model.output, StopLinear):
        return {"logits": logits}
    chosen = torch.eye(logits.size)[model.output.end, None].to(model.output.weight)
    return {"logits": logits, "stop": Value("sigmoid", 1, (_linear(logits, chosen),))}


@_describe.register
def _(model: LengthLanguageModel) -> Network:
    """`left` is how many tokens are still to come; lengths are the reader's to choose."""
    language = model.language
    told = _sum(
        _deepened(_embedding(language.embedding, "tokens"), language.deep_input), _embedding(model.left, "left")
    )
    return Network({"logits": _read_out(language, told)})


@_describe.register
def _(model: Readout) -> Network:
    return Network({"y": _predicted(model, Value("numbers", model.recurrent.input_size, name="x"))})


@_describe.register
def _(model: Forecaster) -> Network:
    if model.baseline is not None:
        raise OptionError(
            f"export: this network predicts what an autoregression of order {model.baseline.order} leaves, and a step of it "
            "has no place for the values before. Train with model.combine=none."
        )
    x = Value("numbers", model.channels, name="x")
    known = Value("known", x.size, (x,))
    read = _concat([known, Value("missing", x.size, (x,))]) if model.gaps else known
    predicted = _predicted(model, read)
    if model.skip is not None:
        predicted = _sum(predicted, _linear(known, model.skip.weight))
    if model.change:  # what the head adds of the last value is linear in it
        moved = model.head.around(torch.zeros(x.size, predicted.size), torch.eye(x.size)).T
        predicted = _sum(predicted, _linear(known, moved.to(model.output.weight)))
    return Network({"predicted": predicted})


@_describe.register
def _(model: ConditionedLanguageModel) -> Network:
    moved: Value
    if isinstance(model.condition, nn.Embedding):
        given = Value("label", model.condition.num_embeddings, name="label")
        moved = Value("embedding", model.condition.embedding_dim, (given,), {"table": model.condition.weight.detach()})
    else:
        assert isinstance(model.condition, nn.Linear)
        moved = _linear(Value("vector", model.condition.in_features, name="condition"), *_parts(model.condition))
    language = model.language
    read = _deepened(_embedding(language.embedding, "tokens"), language.deep_input)
    if model.as_input:
        read = _sum(read, Value("spread", moved.size, (moved,)))
    outputs = {"logits": _read_out(language, read)}
    if model.first is not None:  # a reader takes them with the first step, and passes them in as states
        firsts = _first_states(model.first, language.recurrent, moved)
        outputs |= {f"first_{name}": value for name, value in firsts.items()}
    return Network(outputs)


@_describe.register
def _(model: EventModel) -> Network:
    parts = [_embedding(model.activity, "activities")]
    for k, table in enumerate(model.attributes):
        assert isinstance(table, nn.Embedding)
        parts.append(_embedding(table, f"attribute_{k}"))
    times = model.recurrent.input_size - sum(part.size for part in parts)
    if times:
        parts.append(Value("numbers", times, name="times"))
    hidden = _recurrent(_concat(parts), model.recurrent)
    outputs = {"logits": _linear(hidden, *_parts(model.output)), "gap": _linear(hidden, *_parts(model.gap))}
    for k, head in enumerate(model.predicted):
        assert isinstance(head, nn.Linear)
        outputs[f"attribute_{k}_logits"] = _linear(hidden, *_parts(head))
    return Network(outputs)


@_describe.register
def _(model: Jordan) -> Network:
    x, before = _embedding(model.input, "tokens"), _embedding(model.back, "before")
    shifted = Value("linear", x.size, (x,), {"weight": torch.eye(x.size).to(model.bias), "bias": model.bias.detach()})
    hidden = Value("tanh", x.size, (_sum(shifted, before),))
    return Network({"logits": _linear(hidden, *_parts(model.output))})


@_describe.register
def _(model: Tagger) -> Network:
    return Network({"logits": _linear(_labeller(model), *_parts(model.output))})


@_describe.register
def _(model: Classifier) -> Network:
    hidden, H = _labeller(model), model.recurrent.hidden_sizes[-1]
    if model.head == "last" and hidden.size == H:
        pooled = Value("last", hidden.size, (hidden,))
    elif model.head == "last":
        eye = torch.eye(hidden.size).to(model.output.weight)
        ahead = _linear(Value("last", hidden.size, (hidden,)), eye[:H])
        pooled = _concat([ahead, _linear(Value("first", hidden.size, (hidden,)), eye[H:])])
    elif model.attention is not None:
        inner, outer = model.attention[0], model.attention[2]
        assert isinstance(inner, nn.Linear)
        assert isinstance(outer, nn.Linear)
        scores = _linear(Value("tanh", hidden.size, (_linear(hidden, *_parts(inner)),)), *_parts(outer))
        pooled = Value("attention", hidden.size, (hidden, scores))
    else:
        pooled = Value(model.head, hidden.size, (hidden,))
    return Network({"logits": _linear(pooled, *_parts(model.output))})


@_describe.register
def _(model: EchoState) -> Network:
    """Numbers are read and predicted as they are: standardising is a linear map before, and one after."""
    D, O, scale, shift = model.input_size, model.output_size, model.scale, model.shift
    parts = [Value("numbers", D, name="x")] if D else []
    if model.feedback:
        parts.append(Value("numbers", O, name="before"))
    raw = _concat(parts)
    order = slice(raw.size)
    x = _linear(raw, torch.diag(1 / scale[order]), -shift[order] / scale[order])
    echoes, first = [], 0
    for reservoir in model.stacks:
        read = x
        for (direction,) in reservoir.stack:
            read = Value("layer", direction.hidden_size, (read,), name=str(first), direction=direction)
            echoes.append(read)
            first += 1
    weight = model.output.weight * scale[D:, None]
    return Network({"y": _linear(_concat([Value("one", 1 + x.size, (x,)), *echoes]), weight, shift[D:])})


@_describe.register
def _(model: Translator) -> dict[str, Network]:
    encoder, H = model.encoder, model.encoder.hidden_sizes[-1]
    outputs = _recurrent(_embedding(model.source_embedding, "tokens"), encoder)
    context = Value("last", outputs.size, (outputs,))
    if outputs.size > H:
        eye = torch.eye(outputs.size).to(model.output.weight)
        back = _linear(Value("first", outputs.size, (outputs,)), eye[H:])
        context = _concat([_linear(context, eye[:H]), back])
    told = {"context": context}
    if model.attention is not None:
        told |= {"outputs": outputs, "keys": _linear(outputs, model.attention.key.weight)}
    if model.length is not None:
        told["length_logits"] = _linear(context, *_parts(model.length))
    if model.as_state:
        told |= _first_states(model.first, model.decoder, context)

    read = _embedding(model.target_embedding, "tokens")
    if model.as_input:
        given = Value("vector", context.size, name="context")
        read = _concat([read, Value("spread", context.size, (given,))])
    hidden = _recurrent(read, model.decoder)
    if model.attention is not None:
        keys = Value("memory", model.decoder.output_size, name="keys")
        values = Value("memory", outputs.size, name="outputs")
        weights: dict[str, Tensor] = {}
        if model.attention.kind == "additive":
            weights = {"query": model.attention.query.weight, "bias": model.attention.query.bias}
            weights["score"] = model.attention.score.weight
        found = Value("attend", outputs.size, (hidden, keys, values), {k: w.detach() for k, w in weights.items()})
        hidden = Value("tanh", hidden.size, (_linear(_concat([hidden, found]), *_parts(model.join)),))
    return {"encoder": Network(told), "decoder": Network({"logits": _linear(hidden, *_parts(model.output))})}


def _first_states(first: FirstState, layers: Recurrent, vector: Value) -> dict[str, Value]:
    """What layers start from, named as their states are; a state that no input moves starts as it always does."""
    made = Value("tanh", first.out_features, (_linear(vector, *_parts(first)),))
    told, begin = {}, 0
    eye = torch.eye(made.size).to(first.weight)
    for k, (direction, *_) in enumerate(layers.stack):
        for state, moved in zip(direction.cell.graph.states, first.moved[k], strict=True):
            if moved:
                size = state.depth * direction.hidden_size
                told[f"{state.name}_{k}"] = _linear(made, eye[begin : begin + size])
                begin += size
    return told


def _labeller(model: Labeller) -> Value:
    """What a labeller's last layer gives at each step."""
    size = model.recurrent.input_size if model.front is None else model.front.input_size
    x = Value("numbers", size, name="x") if model.embedding is None else _embedding(model.embedding, "tokens")
    if model.front is not None:
        kernel = model.front.kernel
        assert kernel.bias is not None
        weights = {"weight": kernel.weight.detach(), "bias": kernel.bias.detach()}
        x = Value("convolution", model.front.output_size, (x,), weights)
        if model.front.pool > 1:
            x = Value("pool", x.size, (x,), factor=model.front.pool)
    return _recurrent(x, model.recurrent)


def _predicted(model: SequenceModel, vectors: Value) -> Value:
    """What a model of one step after another predicts from the vectors that it reads."""
    return _read_out(model, _deepened(vectors, model.deep_input))


def _read_out(model: SequenceModel, vectors: Value) -> Value:
    hidden = _recurrent(vectors, model.recurrent)
    if isinstance(model.output, DeepLinear):
        hidden = _deepened(hidden, model.output.before)
    return _linear(hidden, *_parts(model.output))


def _recurrent(x: Value, layers: Recurrent) -> Value:
    """Stacked layers, with two directions merged and residual connections where they are asked for."""
    for k, directions in enumerate(layers.stack):
        outputs = [
            Value("layer", each.hidden_size, (x,), name=f"{k}{'_reverse' if d else ''}", direction=each)
            for d, each in enumerate(directions)
        ]
        y = _merged(outputs, layers.merge) if len(outputs) == 2 else outputs[0]
        x = _sum(y, x) if layers.residual and k else y
    return x


def _merged(two: list[Value], merge: str) -> Value:
    if merge == "concat":
        return _concat(two)
    size = two[0].size
    if merge == "mul":
        return Value("multiply", size, tuple(two))
    total = _sum(*two)
    direction = two[0].direction
    assert direction is not None
    return _linear(total, torch.eye(size).to(direction.W) / 2) if merge == "mean" else total


def _embedding(table: nn.Embedding, name: str) -> Value:
    tokens = Value("tokens", table.num_embeddings, name=name)
    return Value("embedding", table.embedding_dim, (tokens,), {"table": table.weight.detach()})


def _linear(x: Value, weight: Tensor, bias: Tensor | None = None) -> Value:
    weights = {"weight": weight.detach()} if bias is None else {"weight": weight.detach(), "bias": bias.detach()}
    return Value("linear", len(weight), (x,), weights)


def _parts(layer: nn.Linear) -> tuple[Tensor, Tensor]:
    return layer.weight, layer.bias


def _deepened(x: Value, layers: nn.Module) -> Value:
    """Extra layers of tanh, as `recurra.layers.deep` makes them."""
    for each in layers.children():
        inner = next(each.children())
        assert isinstance(inner, nn.Linear)
        x = Value("tanh", inner.out_features, (_linear(x, *_parts(inner)),))
    return x


def _sum(*values: Value) -> Value:
    return Value("add", values[0].size, values)


def _concat(values: list[Value]) -> Value:
    return values[0] if len(values) == 1 else Value("concat", sum(v.size for v in values), tuple(values))


def _tensors(value: Value) -> Iterable[Any]:
    return [*value.weights.values(), *([value.direction.W] if value.direction is not None else [])]
