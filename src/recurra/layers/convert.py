"""From `torch.nn` layers and back: the same network, weights rearranged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from recurra.cells.elman import elman
from recurra.cells.graph import block
from recurra.cells.gru_after import gru_after
from recurra.cells.lstm import lstm
from recurra.cells.notation import Cell
from recurra.engines.vendor import recognise
from recurra.errors import OptionError
from recurra.layers.direction import Direction

if TYPE_CHECKING:
    from recurra.layers.recurrent import Recurrent


@dataclass(frozen=True)
class _Twin:
    """A cell and the torch layer that computes it, with torch's order of gates."""

    cell: Cell
    gates: tuple[str, ...]
    module: type[nn.RNNBase]
    arguments: dict[str, Any]


_TWINS = {
    "elman": _Twin(elman, ("h",), nn.RNN, {"nonlinearity": "tanh"}),
    "elman(relu)": _Twin(elman(activation="relu"), ("h",), nn.RNN, {"nonlinearity": "relu"}),
    "lstm": _Twin(lstm, ("i", "f", "c", "o"), nn.LSTM, {}),
    "gru_after": _Twin(gru_after, ("r", "z", "n"), nn.GRU, {}),
}


def from_torch(module: nn.LSTM | nn.GRU | nn.RNN, engine: str) -> Recurrent:
    from recurra.layers.recurrent import Recurrent

    if not isinstance(module, (nn.LSTM, nn.GRU, nn.RNN)):
        raise OptionError(f"from_torch takes nn.LSTM, nn.GRU or nn.RNN; got {type(module).__name__}.")
    if getattr(module, "proj_size", 0):
        raise OptionError(
            "from_torch: an nn.LSTM with proj_size has no equal here. Add a linear layer after the network instead."
        )
    kind = {"LSTM": "lstm", "GRU": "gru_after", "RNN_TANH": "elman", "RNN_RELU": "elman(relu)"}[module.mode]
    twin = _TWINS[kind]
    like = module.weight_ih_l0
    layer = Recurrent(
        twin.cell,
        module.input_size,
        module.hidden_size,
        layers=module.num_layers,
        bidirectional=module.bidirectional,
        dropout=module.dropout,
        engine=engine,
        device=like.device,
        dtype=like.dtype,  # type: ignore[arg-type]
    )
    for direction, suffix in _pairs(layer):
        _read(direction, twin, module, suffix)
    return layer.train(module.training)


def to_torch(layer: Recurrent) -> nn.LSTM | nn.GRU | nn.RNN:
    found = recognise(layer.cell.graph)
    if found is None:
        raise OptionError(
            f"to_torch: torch.nn has no layer with the equations of {layer.cell.name!r}; it has elman, lstm and gru_after."
        )
    asked = {"merge": layer.bidirectional and layer.merge != "concat", "residual": layer.residual}
    first: Any = layer.layers[0][0]  # type: ignore[index]
    asked["learn_initial"] = len(first.initial) > 0
    for option, used in asked.items():
        if used:
            raise OptionError(f"to_torch: torch.nn has no counterpart of {option}={getattr(layer, option, True)!r}.")
    kind, names = found
    twin = _TWINS[kind]
    module: Any = twin.module(
        layer.input_size,
        layer.hidden_size,
        num_layers=len(layer.layers),
        bidirectional=layer.bidirectional,
        dropout=layer.dropout.p if len(layer.layers) > 1 else 0.0,
        batch_first=True,
        device=first.W.device,
        dtype=first.W.dtype,
        **twin.arguments,
    )
    for direction, suffix in _pairs(layer):
        _write(direction, twin, module, suffix, names)
    return module.train(layer.training)  # type: ignore[no-any-return]


def _pairs(layer: Recurrent) -> list[tuple[Direction, str]]:
    """Each direction of each layer with the suffix of torch's names for its weights."""
    return [
        (direction, f"_l{k}{'_reverse' if d else ''}")  # type: ignore[misc]
        for k, directions in enumerate(layer.layers)
        for d, direction in enumerate(directions)  # type: ignore[arg-type]
    ]


@torch.no_grad()
def _read(direction: Direction, twin: _Twin, module: nn.RNNBase, suffix: str) -> None:
    graph, H = direction.cell.graph, direction.hidden_size
    assert direction.U is not None
    direction.W.copy_(block(getattr(module, f"weight_ih{suffix}"), twin.gates, graph.drives, H))
    direction.U.copy_(block(getattr(module, f"weight_hh{suffix}"), twin.gates, graph.matrices, H))
    if not module.bias:
        direction.b.zero_()
        return
    outer, inner = getattr(module, f"bias_ih{suffix}"), getattr(module, f"bias_hh{suffix}")
    if "b" in direction.units:  # gru_after: the candidate's inner bias stays inside the reset
        direction.units["b"].copy_(inner[2 * H :])
        inner = torch.cat([inner[: 2 * H], torch.zeros_like(inner[2 * H :])])
    direction.b.copy_(_vector(outer + inner, twin.gates, graph.drives, H))


@torch.no_grad()
def _write(
    direction: Direction, twin: _Twin, module: nn.RNNBase, suffix: str, names: dict[tuple[str, str], str]
) -> None:
    graph, H = direction.cell.graph, direction.hidden_size
    drives = [names["drive", gate] for gate in twin.gates]
    matrices = [names["product", gate] for gate in twin.gates]
    getattr(module, f"weight_ih{suffix}").copy_(block(direction.W, graph.drives, drives, H))
    getattr(module, f"weight_hh{suffix}").copy_(block(direction.recurrent_matrices(), graph.matrices, matrices, H))
    getattr(module, f"bias_ih{suffix}").copy_(_vector(direction.b, graph.drives, drives, H))
    inner = getattr(module, f"bias_hh{suffix}")
    inner.zero_()
    if ("parameter", "b") in names:
        inner[2 * H :] = direction.unit_values()[names["parameter", "b"]]


def _vector(vector: Tensor, names: Any, wanted: Any, size: int) -> Tensor:
    return block(vector[:, None], tuple(names), wanted, size)[:, 0]
