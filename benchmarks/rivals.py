"""What a layer is measured against: torch's own module of the same cell, a loop in PyTorch, and JAX's `lax.scan`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from recurra.benchmarks.loops import has_loop, run_loop
from recurra.cells.graph import LEAVES, NORM_EPSILON, Graph, Node, block, walk
from recurra.cells.operations import OPERATIONS
from recurra.engines.vendor import recognise
from recurra.layers.recurrent import Recurrent
from recurra.types import Float

Values = dict[str, Tensor]
"""`outputs` `[B, T, H]`, `gradient of inputs`, and whatever else two runners have in common."""

HAND_LOOP, EAGER_LOOP = "loop by hand", "loop (eager engine)"
"""Which loop over time a row of the table is."""


@dataclass(frozen=True)
class Runner:
    """A way to run a layer's equations on one input: `forward` without gradients, `train` with all of them.

    `read` turns what `train` gave into tensors that can be compared.
    """

    name: str
    forward: Callable[[], Any]
    train: Callable[[], Any]
    read: Callable[[Any], Values]


def engine_runner(
    layer: Recurrent, engine: str, x: Float[Tensor, "B T D"], weight: Float[Tensor, "B T H"], name: str = ""
) -> Runner:
    """The layer on that engine."""

    def outputs(x: Tensor) -> Tensor:
        if layer.engine != engine:  # to assign it takes a module longer than a short call may
            layer.engine = engine
        found: Tensor = layer(x).outputs
        return found

    return _autograd_runner(name or engine, outputs, dict(layer.named_parameters()), x, weight)


def loop_runner(layer: Recurrent, x: Float[Tensor, "B T D"], weight: Float[Tensor, "B T H"]) -> Runner:
    """The loop over time that a person writes by hand where there is one for the cell; otherwise the eager engine."""
    if not has_loop(layer.cell):
        return engine_runner(layer, "eager", x, weight, EAGER_LOOP)
    parameters = dict(layer.named_parameters())
    return _autograd_runner(HAND_LOOP, lambda x: run_loop(layer.cell, x, *parameters.values()), parameters, x, weight)


def torch_runner(
    layer: Recurrent, x: Float[Tensor, "B T D"], weight: Float[Tensor, "B T H"], note: str = ""
) -> Runner | None:
    """`nn.LSTM`, `nn.GRU` or `nn.RNN` with the layer's weights, time first as it likes it best; None where torch has none."""
    if recognise(layer.cell.graph) is None:
        return None
    module = layer.to_torch().train()  # cuDNN gives gradients in training mode only
    module.flatten_parameters()  # where cuDNN wants them, so that it need not copy them at every call
    module.batch_first = False
    runner = _autograd_runner(
        f"nn.{type(module).__name__}{note}",
        lambda x: module(x)[0],
        dict(module.named_parameters()),
        x.transpose(0, 1).contiguous(),
        weight.transpose(0, 1).contiguous(),
    )

    def read(found: Any) -> Values:  # its weights are cut and ordered otherwise, and its gates have two biases
        values = runner.read(found)
        return {name: values[name].transpose(0, 1) for name in ("outputs", "gradient of inputs")}

    return replace(runner, read=read)


def _autograd_runner(
    name: str, outputs: Callable[[Tensor], Tensor], parameters: Mapping[str, Tensor], x: Tensor, weight: Tensor
) -> Runner:
    x = x.detach().clone().requires_grad_()

    def forward() -> Tensor:
        with torch.no_grad():
            return outputs(x)

    def train() -> tuple[Tensor, ...]:
        y = outputs(x)
        return y, *torch.autograd.grad(y, [x, *parameters.values()], weight, materialize_grads=True)

    def read(found: tuple[Tensor, ...]) -> Values:
        names = ("outputs", "gradient of inputs", *(f"gradient of {each}" for each in parameters))
        return {each: value.detach() for each, value in zip(names, found, strict=True)}

    return Runner(name, forward, train, read)


def why_no_jax(device: str) -> str | None:
    """Why the equations cannot run under JAX on this device; none if they can."""
    if find_spec("jax") is None:
        return "jax is not installed"
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # otherwise it takes most of a GPU's memory at once
    import jax

    try:
        jax.devices("gpu" if device == "cuda" else device)
    except RuntimeError:
        return f"jax sees no {device} here"
    return None


def jax_runner(layer: Recurrent, x: Float[Tensor, "B T D"], weight: Float[Tensor, "B T H"]) -> Runner:
    """The layer's graph as one `lax.scan`, compiled; inputs are on the device before the clock starts."""
    import jax

    jax.config.update("jax_enable_x64", x.dtype == torch.float64)
    first = layer.stack[0][0]
    with torch.no_grad():
        weights = first.weights(x.shape[1], x.shape[0])
    given = {"W": weights.W, "b": weights.b, "U": weights.U, **{f"unit {n}": v for n, v in weights.units.items()}}
    device = jax.devices("cpu" if x.device.type == "cpu" else "gpu")[0]  # where the others run

    def put(value: Tensor) -> Any:
        exact = value.detach().cpu().to(torch.promote_types(value.dtype, torch.float32))  # NumPy has no bfloat16
        return jax.device_put(exact.numpy(), device).astype(str(value.dtype).removeprefix("torch."))

    parameters = {name: put(value) for name, value in given.items()}
    inputs, cotangent = put(x.transpose(0, 1)), put(weight.transpose(0, 1))
    graph, masks = layer.cell.graph, {n: noise.mean for n, noise in layer.cell.graph.noises.items()}

    def outputs(parameters: Any, inputs: Any) -> Any:
        return _scan(graph, masks, parameters, inputs)

    def loss(parameters: Any, inputs: Any) -> Any:
        found = outputs(parameters, inputs)
        return (found * cotangent).sum(), found

    run, gradients = jax.jit(outputs), jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))

    def read(found: Any) -> Values:
        (_, values), (_, gradient) = found
        arrays = {"outputs": values, "gradient of inputs": gradient}
        exact = {name: array.astype("float32") if array.itemsize < 4 else array for name, array in arrays.items()}
        return {name: torch.tensor(jax.device_get(array)).transpose(0, 1) for name, array in exact.items()}

    return Runner(
        "JAX scan",
        lambda: jax.block_until_ready(run(parameters, inputs)),
        lambda: jax.block_until_ready(gradients(parameters, inputs)),
        read,
    )


def _scan(graph: Graph, masks: dict[str, float], parameters: Any, inputs: Any) -> Any:
    """The outputs `[T, B, H]` of a cell's graph from a zero state: drives of all steps first, then step by step."""
    import jax
    from jax import numpy as jnp

    H, B = parameters["U"].shape[1], inputs.shape[1]
    functions = _jax_operations()
    drives = inputs @ parameters["W"].T + parameters["b"]
    groups = {product: group for stage in graph.stages for group in stage for product in group.products}

    def multiply(node: Node, values: dict[Node, Any]) -> None:
        """All products of the node's argument at once, as the engines take them."""
        group = groups[node]
        stacked = values[group.argument] @ _blocks(parameters["U"], graph.matrices, group.names, H).T
        values.update(zip(group.products, jnp.split(stacked, len(group.products), axis=-1), strict=True))

    def leaf(node: Node, history: Any, drive: Any) -> Any:
        match node.kind:
            case "drive":
                place = graph.drives.index(node.name) * H
                return drive[:, place : place + H]
            case "state":
                return history[[state.name for state in graph.states].index(node.name)][-node.delay]
            case "noise":
                return masks[node.name]
        return parameters[f"unit {node.name}"]

    def step(history: Any, drive: Any) -> Any:
        values: dict[Node, Any] = {}
        for node in walk(graph.updates):
            arguments = [values[argument] for argument in node.arguments]
            if node in values:
                continue
            if node.kind == "constant":
                values[node] = node.value
            elif node.kind == "product":
                multiply(node, values)
            elif node.kind == "norm":
                centred = arguments[0] - arguments[0].mean(-1, keepdims=True)
                spread = jnp.sqrt((centred * centred).mean(-1, keepdims=True) + NORM_EPSILON)
                values[node] = parameters[f"unit {node.name}"] * centred / spread
            elif node.kind in LEAVES:
                values[node] = leaf(node, history, drive)
            else:
                function: Callable[..., Any] = functions.get(node.kind) or OPERATIONS[node.kind].value
                values[node] = function(*arguments)
        new = [jnp.broadcast_to(jnp.asarray(values[update], drives.dtype), (B, H)) for update in graph.updates]
        return tuple((*past[1:], value) for past, value in zip(history, new, strict=True)), new[0]

    zero = jnp.zeros((B, H), drives.dtype)
    return jax.lax.scan(step, tuple((zero,) * state.depth for state in graph.states), drives)[1]


def _blocks(matrix: Any, names: tuple[str, ...], wanted: tuple[str, ...], size: int) -> Any:
    """`block` for arrays of JAX."""
    from jax import numpy as jnp

    rows = block(torch.arange(len(matrix)), names, wanted, size).tolist()
    whole = rows == list(range(rows[0], rows[0] + len(rows)))
    return matrix[rows[0] : rows[0] + len(rows)] if whole else matrix[jnp.asarray(rows)]


def _jax_operations() -> dict[str, Callable[..., Any]]:
    """Operations that are functions of torch in the notation; all others are Python's operators and work as they are."""
    import jax
    from jax import numpy as jnp

    same = ["remainder", "where", "tanh", "exp", "log", "sqrt", "sign", "floor", "minimum", "maximum", "sin", "cos"]
    found = {name: getattr(jnp, name) for name in [*same, "abs"]}
    found |= {name: getattr(jax.nn, name) for name in ("sigmoid", "relu", "softplus")}
    return found | {"clamp": jnp.clip, "erf": jax.scipy.special.erf}
