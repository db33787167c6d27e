"""A compiled kernel of one cell and dtype, called with a structure of sizes and addresses."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from recurra.cells.graph import Graph
from recurra.engines.fused.build import build
from recurra.engines.fused.cpp import emit
from recurra.engines.fused.cpp_passes import Signature, state_field
from recurra.engines.fused.stages import Plan, plan
from recurra.types import Float

REALS = {torch.float32: "float", torch.float64: "double"}


class Rows(ctypes.Structure):
    """Where the row of each step and lane lies: an address and the distances from step to step and from lane to lane."""

    _fields_ = (("at", ctypes.c_void_p), ("step", ctypes.c_int64), ("lane", ctypes.c_int64))


def rows(x: Float[Tensor, "T B _"]) -> Rows:
    """Those of a tensor whose last axis is contiguous."""
    step, lane, _ = x.stride()
    return Rows(x.data_ptr(), step, lane)


@dataclass(frozen=True, eq=False)
class Kernel:
    """`forward` and `backward` of a plan, each with its structure of arguments and with how many numbers of memory it asks for.

    What a structure holds is said in the source that `source_of` gives.
    """

    plan: Plan
    dtype: torch.dtype
    states: tuple[str, ...]  # what the structures call the states
    gradients: tuple[str, ...]  # and the gradients of x, W, b, U, per-unit parameters and first states
    Forward: Callable[..., Any]
    Backward: Callable[..., Any]
    forward: Callable[[Any], None]
    backward: Callable[[Any], None]
    forward_memory: Callable[[Any], int]
    backward_memory: Callable[[Any], int]
    open_stream: Callable[[Any], None]
    stream: Callable[[Any, int, int, int], None]


@lru_cache(maxsize=256)
def kernel(graph: Graph, dtype: torch.dtype) -> Kernel:
    made = plan(graph)
    source = emit(made)
    library = build(source.text, REALS[dtype], f"the {REALS[dtype]} kernel of {graph.name}")
    Forward, Backward = _structure("Forward", source.forward), _structure("Backward", source.backward)
    forward, backward = ctypes.POINTER(Forward), ctypes.POINTER(Backward)
    long, address = ctypes.c_int64, ctypes.c_void_p
    states = tuple(state_field(state.name) for state in graph.states)
    return Kernel(
        made,
        dtype,
        states,
        tuple(
            f"d_{name}" for name in ("x", "W", "bias", "U", *(f"p_{name}" for name in made.graph.parameters), *states)
        ),
        Forward,
        Backward,
        _function(library.forward, [forward]),
        _function(library.backward, [backward]),
        _function(library.forward_memory, [forward], long),
        _function(library.backward_memory, [backward], long),
        _function(library.open_stream, [forward]),
        _function(library.stream, [forward, address, address, long]),
    )


def _structure(name: str, signature: Signature) -> type[ctypes.Structure]:
    types = {"long": ctypes.c_int64, "Rows": Rows}
    fields = [(field, types.get(kind, ctypes.c_void_p)) for kind, field, _ in signature.fields]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


def _function(function: Any, arguments: list[Any], result: Any = None) -> Any:
    function.argtypes, function.restype = arguments, result
    return function


def source_of(graph: Graph) -> str:
    """The generated C++ of a cell, as it is compiled."""
    return emit(plan(graph)).text
