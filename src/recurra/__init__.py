"""Recurra: recurrent networks from their equations."""

from recurra.cells.catalogue import CATALOGUE, find_cell
from recurra.cells.graph import Graph
from recurra.cells.notation import Cell, ago, cell, norm
from recurra.cells.operations import (
    clamp,
    cos,
    erf,
    exp,
    floor,
    gelu,
    linear,
    log,
    maximum,
    minimum,
    relu,
    sigmoid,
    sign,
    silu,
    sin,
    softplus,
    sqrt,
    tanh,
    where,
)
from recurra.cells.parameters import Fixed, Learned, Ramp, Scattered
from recurra.cells.recurrent_dropout import recurrent_dropout
from recurra.cells.zoneout import zoneout
from recurra.errors import CellError, EngineError, OptionError, RecurraError, ShapeError
from recurra.layers.initial import spectral_radius
from recurra.layers.recurrent import Recurrent
from recurra.layers.stepper import Stepper
from recurra.types import State, Trace

__version__ = "0.1.0"

__all__ = [
    "CATALOGUE",
    "Cell",
    "CellError",
    "EngineError",
    "Fixed",
    "Graph",
    "Learned",
    "OptionError",
    "Ramp",
    "RecurraError",
    "Recurrent",
    "Scattered",
    "ShapeError",
    "State",
    "Stepper",
    "Trace",
    "ago",
    "cell",
    "clamp",
    "cos",
    "erf",
    "exp",
    "find_cell",
    "floor",
    "gelu",
    "linear",
    "log",
    "maximum",
    "minimum",
    "norm",
    "recurrent_dropout",
    "relu",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "softplus",
    "spectral_radius",
    "sqrt",
    "tanh",
    "where",
    "zoneout",
]
