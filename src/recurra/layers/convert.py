"""From `torch.nn` layers and back: the same network, weights rearranged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from recurra.cells.graph import block
from recurra.engines.vendor import KERNELS, Kernel, recognise
from recurra.errors import OptionError
from recurra.layers.direction import Direction

if TYPE_CHECKING:
    from recurra.layers.recurrent import Recurrent


_MODULES: dict[str, Callable[..., nn.RNNBase]] = {
    "elman": nn.RNN,
    "elman(relu)": partial(nn.RNN, nonlinearity="relu"),
    "lstm": nn.LSTM,
    "gru_after": nn.GRU,
}
_MODES = {"RNN_TANH": "elman", "RNN_RELU": "elman(relu)", "LSTM": "lstm", "GRU": "gru_after"}


def from_torch(module: nn.LSTM | nn.GRU | nn.RNN, engine: str) -> Recurrent:
    from recurra.layers.recurrent import Recurrent

    if not isinstance(module, (nn.LSTM, nn.GRU, nn.RNN)):
        raise OptionError(f"from_torch takes nn.LSTM, nn.GRU or nn.RNN; got {type(module).__name__}.")
    if getattr(module, "proj_size", 0):
        raise OptionError(
            "from_torch: an nn.LSTM with proj_size has no equal here. Add a linear layer after the network instead."
        )
    kernel = KERNELS[_MODES[module.mode]]
    like = next(module.parameters())
    layer = Recurrent(
        kernel.pattern,
        module.input_size,
        module.hidden_size,
        layers=module.num_layers,
        bidirectional=module.bidirectional,
        dropout=module.dropout,
        engine=engine,
        device=like.device,
        dtype=like.dtype,
    )
    for direction, suffix in _pairs(layer):
        _read(direction, kernel, module, suffix)
    return layer.train(module.training)


def to_torch(layer: Recurrent) -> nn.LSTM | nn.GRU | nn.RNN:
    found = recognise(layer.cell.graph)
    if found is None:
        raise OptionError(
            f"to_torch: torch.nn has no layer with the equations of {layer.cell.name!r}; it has elman, lstm and gru_after."
        )
    asked = {"merge": layer.bidirectional and layer.merge != "concat", "residual": layer.residual}
    first = layer.stack[0][0]
    asked["learn_initial"] = len(first.initial) > 0
    for option, used in asked.items():
        if used:
            raise OptionError(f"to_torch: torch.nn has no counterpart of {option}={getattr(layer, option, True)!r}.")
    kind, names = found
    module = _MODULES[kind](
        layer.input_size,
        layer.hidden_size,
        num_layers=len(layer.layers),
        bidirectional=layer.bidirectional,
        dropout=layer.dropout.p if len(layer.layers) > 1 else 0.0,
        batch_first=True,
        device=first.W.device,
        dtype=first.W.dtype,
    )
    for direction, suffix in _pairs(layer):
        _write(direction, KERNELS[kind], module, suffix, names)
    return cast(nn.LSTM | nn.GRU | nn.RNN, module.train(layer.training))


def _pairs(layer: Recurrent) -> list[tuple[Direction, str]]:
    """Each direction of each layer with the suffix of torch's names for its weights."""
    return [
        (direction, f"_l{k}{'_reverse' if d else ''}")
        for k, directions in enumerate(layer.stack)
        for d, direction in enumerate(directions)
    ]


@torch.no_grad()
def _read(direction: Direction, kernel: Kernel, module: nn.RNNBase, suffix: str) -> None:
    graph, H = direction.cell.graph, direction.hidden_size
    assert direction.U is not None
    direction.W.copy_(block(getattr(module, f"weight_ih{suffix}"), kernel.gates, graph.drives, H))
    direction.U.copy_(block(getattr(module, f"weight_hh{suffix}"), kernel.gates, graph.matrices, H))
    if not module.bias:
        direction.b.zero_()
        return
    outer, inner = getattr(module, f"bias_ih{suffix}"), getattr(module, f"bias_hh{suffix}")
    if "b" in direction.units:  # gru_after: the candidate's inner bias stays inside the reset
        direction.units["b"].copy_(inner[2 * H :])
        inner = torch.cat([inner[: 2 * H], torch.zeros_like(inner[2 * H :])])
    direction.b.copy_(_vector(outer + inner, kernel.gates, graph.drives, H))


@torch.no_grad()
def _write(
    direction: Direction, kernel: Kernel, module: nn.RNNBase, suffix: str, names: dict[tuple[str, str], str]
) -> None:
    graph, H = direction.cell.graph, direction.hidden_size
    drives = [names["drive", gate] for gate in kernel.gates]
    matrices = [names["product", gate] for gate in kernel.gates]
    getattr(module, f"weight_ih{suffix}").copy_(block(direction.W, graph.drives, drives, H))
    getattr(module, f"weight_hh{suffix}").copy_(block(direction.recurrent_matrices(), graph.matrices, matrices, H))
    getattr(module, f"bias_ih{suffix}").copy_(_vector(direction.b, graph.drives, drives, H))
    inner = getattr(module, f"bias_hh{suffix}")
    inner.zero_()
    if ("parameter", "b") in names:
        inner[2 * H :] = direction.unit_values()[names["parameter", "b"]]


def _vector(vector: Tensor, names: Iterable[str], wanted: Iterable[str], size: int) -> Tensor:
    return block(vector[:, None], tuple(names), wanted, size)[:, 0]
