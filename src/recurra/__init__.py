"""Recurra: recurrent networks from their equations.

import recurra as rc

run = rc.train("text", data="tale.txt", cell="gru", hidden_size=256)     a recipe: progress, run folder, resume
run = rc.fit(model, batches, loss=loss, steps=2000)                      your own module, data and loss
trace = rc.Recurrent("gru", 64, 256)(x, lengths=lengths)                 only the layer, in your own loop
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if "WORLD_SIZE" in os.environ:
    # of a rank that has died torch prints forty frames of C++; our one line says it. Torch reads this when it is imported
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

from recurra.cells.catalogue import CATALOGUE, find_cell
from recurra.cells.grammar import read_cell
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
from recurra.cells.parameters import Fixed, Groups, Learned, Ramp, Scattered
from recurra.cells.recurrent_dropout import recurrent_dropout
from recurra.cells.zoneout import zoneout
from recurra.errors import (
    CellError,
    DataError,
    EngineError,
    EquationError,
    OptionError,
    RecurraError,
    RunError,
    RunWarning,
    ShapeError,
)
from recurra.layers.initial import spectral_radius
from recurra.layers.recurrent import Recurrent
from recurra.layers.states import detach
from recurra.layers.stepper import Stepper
from recurra.layers.tree import Tree
from recurra.types import State, Trace

__version__ = "0.1.0"

if TYPE_CHECKING:
    from recurra import analysis, data, lecture, metrics, models, plots, training
    from recurra.analysis import (
        extract_automaton,
        find_fixed_points,
        find_units,
        gradient_flow,
        lyapunov,
        vector_field,
    )
    from recurra.export.door import export
    from recurra.lab.server import open_lab as lab
    from recurra.serve.server import serve
    from recurra.tasks.catalogue import RECIPES
    from recurra.tasks.fit import fit
    from recurra.tasks.run import Run
    from recurra.tasks.train import open, runs, train

_ROOMS = ("analysis", "data", "export", "lab", "lecture", "metrics", "models", "plots", "runs", "serve", "training")
_LATER = {
    **dict.fromkeys(("extract_automaton", "find_fixed_points", "find_units"), "analysis"),
    **dict.fromkeys(("gradient_flow", "lyapunov", "vector_field"), "analysis"),
    **dict.fromkeys(("open", "train"), "tasks.train"),
    "RECIPES": "tasks.catalogue",
    "Run": "tasks.run",
    "fit": "tasks.fit",
}


def __getattr__(name: str) -> Any:
    """Rooms, and names that stand on them, are imported when they are first used: `import recurra` costs little beside torch."""
    if name in _ROOMS:
        return import_module(f"recurra.{name}")
    if name in _LATER:
        return getattr(import_module(f"recurra.{_LATER[name]}"), name)
    raise AttributeError(f"module 'recurra' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "CATALOGUE",
    "RECIPES",
    "Cell",
    "CellError",
    "DataError",
    "EngineError",
    "EquationError",
    "Fixed",
    "Graph",
    "Groups",
    "Learned",
    "OptionError",
    "Ramp",
    "RecurraError",
    "Recurrent",
    "Run",
    "RunError",
    "RunWarning",
    "Scattered",
    "ShapeError",
    "State",
    "Stepper",
    "Trace",
    "Tree",
    "ago",
    "analysis",
    "cell",
    "clamp",
    "cos",
    "data",
    "detach",
    "erf",
    "exp",
    "export",
    "extract_automaton",
    "find_cell",
    "find_fixed_points",
    "find_units",
    "fit",
    "floor",
    "gelu",
    "gradient_flow",
    "lab",
    "lecture",
    "linear",
    "log",
    "lyapunov",
    "maximum",
    "metrics",
    "minimum",
    "models",
    "norm",
    "open",
    "plots",
    "read_cell",
    "recurrent_dropout",
    "relu",
    "runs",
    "serve",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "softplus",
    "spectral_radius",
    "sqrt",
    "tanh",
    "train",
    "training",
    "vector_field",
    "where",
    "zoneout",
]
