"""A compiled kernel of one cell and dtype, called with a structure of sizes and addresses."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from recurra.cells.graph import Graph
from recurra.engines.fused.build import build
from recurra.engines.fused.cpp import emit
from recurra.engines.fused.stages import Plan, plan
from recurra.types import Float

REALS = {torch.float32: "float", torch.float64: "double"}


class Rows(ctypes.Structure):
    """Where the numbers of each step and batch row lie: an address, and the distances from step to step and from row to row."""

    _fields_ = (("at", ctypes.c_void_p), ("step", ctypes.c_int64), ("row", ctypes.c_int64))


def rows(x: Float[Tensor, "T B _"]) -> Rows:
    """Those of a tensor whose last axis is contiguous."""
    step, row, _ = x.stride()
    return Rows(x.data_ptr(), step, row)


class Kernel:
    """`forward` and `backward` of a plan, each with its structure of arguments and with how many numbers of memory it asks for.

    `arguments.hpp` tells what a structure holds; `forward` and `backward` take its bytes. `around` is the file that takes steps
    through time: `sequence.hpp`, the only one with streams, or `scan.hpp`.
    """

    def __init__(self, graph: Graph, dtype: torch.dtype, around: str = "sequence.hpp"):
        self.plan, self.dtype = plan(graph), dtype
        library = build(emit(self.plan, around), REALS[dtype], f"the {REALS[dtype]} kernel of {graph.name}")
        self.Forward, self.Backward = _structures(self.plan)
        forward, backward = ctypes.POINTER(self.Forward), ctypes.POINTER(self.Backward)
        long, address = ctypes.c_int64, ctypes.c_void_p
        self.forward = _function(library.forward, [ctypes.c_char_p])
        self.backward = _function(library.backward, [ctypes.c_char_p])
        self.kept_memory = _function(library.kept_memory, [forward], long)
        self.forward_scratch = _function(library.forward_scratch, [forward], long)
        self.backward_scratch = _function(library.backward_scratch, [backward], long)
        self.is_crowded = _function(library.is_crowded, [], ctypes.c_int)
        self.learn = _function(library.learn, [ctypes.c_double] * 3)  # as a region of threads does, to try it
        if around == "sequence.hpp":
            self.open_stream = _function(library.open_stream, [forward])
            self.stream = _function(library.stream, [forward, address, address, long])


_kernel = lru_cache(maxsize=256)(Kernel)


def kernel(graph: Graph, dtype: torch.dtype, around: str = "sequence.hpp") -> Kernel:
    """The kernel of a cell and dtype, compiled if this process and the cache on disk have none. It is loaded once: what its
    threads have learned of a crowded machine serves all who run it."""
    return _kernel(graph, dtype, around)


def _structures(plan: Plan) -> list[type[ctypes.Structure]]:
    """`Forward` and `Backward` of `arguments.hpp`, field by field: `L` a whole number, `P` an address, `R` rows; a number is that
    of an array, which has at least one element."""
    types = {"L": ctypes.c_int64, "P": ctypes.c_void_p, "R": Rows}
    S, parameters, noises = (len(each) for each in (plan.graph.states, plan.graph.parameters, plan.graph.noises))
    common = f"""
        T:L B:L D:L H:L threads:L lengths:P memory:P scratch:P x:R W:P W_row:L bias:P U:P U_row:L state:P{S}
        parameter:P{parameters} noise:R{noises} keeps:L
        workers:L direct:L workspace:P tape:P weights_x:P weights:P{len(plan.groups)}
    """
    forward = f"first:R{S} final:P{S}"
    backward = f"""
        arriving:R{S} final:P{S} d_x:R d_W:P d_bias:P d_U:P d_parameter:P{parameters} d_state:P{S}
        gradient:P sums:P parts:P argument:P{len(set(plan.arguments) - {None})}
    """

    def structure(name: str, text: str) -> type[ctypes.Structure]:
        fields = []
        for field, kind in (each.split(":") for each in text.split()):
            type_ = types[kind[0]]
            fields.append((field, type_ * max(1, int(kind[1:])) if kind[1:] else type_))
        return type(name, (ctypes.Structure,), {"_fields_": fields})

    return [structure("Forward", common + forward), structure("Backward", common + backward)]


def _function(function: Any, arguments: list[Any], result: Any = None) -> Any:
    function.argtypes, function.restype = arguments, result
    return function


def source_of(graph: Graph) -> str:
    """The generated C++ of a cell, as it is compiled."""
    return emit(plan(graph), "sequence.hpp")
