"""What kernels for GPUs have in common, whichever language they are written in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from recurra.engines.fused.stages import Product, Program


@dataclass(frozen=True)
class Tiles:
    """How a run is cut into programs.

    - `units`, `lanes`: what one program owns; powers of two. `alone`: it owns whole rows and waits for nobody.
    - `resident`: the weights stay on chip from step to step; otherwise they are read again, from the second-level cache
      where they fit.
    - `split`: into how many sums over parts of the inputs a product is cut, for warps to work on side by side.
    - `native`: written in CUDA C++, with weights of `itemsize` bytes in registers; otherwise in Triton. `buffers`: for the sums
      of products; with two, no warp waits until the others have read theirs.
    """

    H: int
    lanes: int
    units: int
    alone: bool = False
    resident: bool = True
    warps: int = 4
    split: int = 1
    native: bool = False
    itemsize: int = 2
    buffers: int = 2

    @property
    def programs(self) -> int:
        """That share the units."""
        return -(-self.H // self.units)


@dataclass(frozen=True)
class Source:
    """Generated code with the names of the arguments of its function."""

    text: str
    arguments: tuple[str, ...]


def inputs(product: Product, H: int) -> int:
    """Of each of its outputs."""
    return H if product.nodes[0].kind == "product" else product.blocks * H


def exchanged_rows(program: Program, tiles: Tiles) -> list[int]:
    """The rows between passes that programs hand to one another: those that products read."""
    if tiles.alone:
        return []
    products = (product for each in program.passes for product in each.products)
    return sorted({product.source.number for product in products if product.source.kind == "row"})


@lru_cache(maxsize=1024)
def awaited_states(program: Program) -> frozenset[str]:
    """The states that products read, and so other programs than those that store them."""
    products = (product for each in program.passes for product in each.products)
    return frozenset(product.source.name for product in products if product.source.kind == "state")


def state_argument(name: str, role: str = "s") -> str:
    """What an argument of a kernel is called that belongs to a state. The role comes first: no state's name can be taken for it.

    - `s`: its values; `initial`, `final`: those before the first step and before each lane's end, or their gradients;
    - `arriving`: gradients from outside at each step; `per_step`, `per_lane`: how far these lie apart.
    """
    return f"{role}_{name}"
