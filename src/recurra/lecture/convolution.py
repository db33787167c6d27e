"""Convolution and pooling, place by place: a filter for each channel passes over the image, and what they find is summed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, conv2d, max_pool2d

from recurra.errors import OptionError, ShapeError, choose_from
from recurra.results import Film, Table
from recurra.types import Float

POOLS = ("max", "average", "none")
IMAGE = (
    ((0, 0, 1, 1, 0, 0),) * 6,
    ((0,) * 6, (0,) * 6, (1,) * 6, (1,) * 6, (0,) * 6, (0,) * 6),
)
"""Two channels: a bar that stands, and one that lies."""
FILTERS = (((-1, 0, 1),) * 3, ((-1,) * 3, (0,) * 3, (1,) * 3))
"""For each channel a filter that finds where it gets brighter: to the right, and downwards."""


@dataclass(frozen=True, eq=False)
class Convolution(Film):
    """A filter at every place of an image.

    - `image`: its channels. `filters`: one for each. `parts`: what each filter finds at each place. `map`: their sum and `bias`.
    - `pool`, `pool_size`, `pooled`: the largest value or the average of every square of the map, squares side by side.

    A film first moves the filters over the image, then the square over the map.
    """

    frame_size: ClassVar[tuple[float, float]] = (9.4, 5.2)

    image: Float[Tensor, "C H W"]
    filters: Float[Tensor, "C K K"]
    bias: float
    stride: int
    parts: Float[Tensor, "C h w"]
    map: Float[Tensor, "h w"]
    pool: str
    pool_size: int
    pooled: Float[Tensor, "p q"]

    @property
    def places(self) -> list[tuple[int, int]]:
        """Row and column of the window's corner in the image, in the order of the film."""
        h, w = self.map.shape
        return [(self.stride * row, self.stride * column) for row in range(h) for column in range(w)]

    @property
    def frames(self) -> int:
        """One for each place of the filters, then one for each square that is pooled."""
        return self.map.numel() + self.pooled.numel()

    def table(self) -> Table:
        size = self.filters.shape[1]
        rows = [
            ("image", f"{len(self.image)} channels", _size(self.image[0])),
            ("map", f"filters of {size} × {size}, steps of {self.stride}", _size(self.map)),
        ]
        if self.pool != "none":
            rows.append(("pooled", f"{self.pool} of {self.pool_size} × {self.pool_size}", _size(self.pooled)))
        return Table(("", "made by", "size"), rows)


def convolve(
    image: Any = IMAGE,
    filters: Any = FILTERS,
    *,
    bias: float = 0.0,
    stride: int = 1,
    pool: str = "max",
    pool_size: int = 2,
) -> Convolution:
    """Pass a filter over each channel of an image, sum what they find, and pool the sums.

    - `image`: numbers `[C, H, W]`, or `[H, W]` for one channel. `filters`: `[C, K, K]`, or `[K, K]`.
    - `stride`: how far the filters move each time. `pool`: `max`, `average` or `none`, over squares of `pool_size`.

    At row i and column j the map is bias + Σ_c Σ_ab filters[c, a, b] · image[c, i·stride + a, j·stride + b]. Nothing is added at
    the edges, so that the map is smaller than the image, and what is pooled smaller than the map.

    ```python
    found = rc.lecture.convolve()                          # two channels of 6 × 6, filters of 3 × 3
    assert found.map.shape == (4, 4) and found.pooled.shape == (2, 2)
    found.plot("convolution.svg")
    rc.lecture.convolve([[0, 1, 2, 3]] * 4, [[1, 1], [1, 1]]).animate("convolution.gif", seconds=0.1)
    ```
    """
    x, K = _channels("image", image), _channels("filters", filters)
    choose_from("pool", pool, POOLS)
    if len(x) != len(K) or K.shape[1] != K.shape[2]:
        raise ShapeError(
            f"filters must be square, one for each of the image's {len(x)} channels; got {list(K.shape)} [C, K, K]."
        )
    if K.shape[1] > min(x.shape[1:]) or stride < 1 or pool_size < 1:
        raise OptionError(
            f"filters must fit into the image, stride and pool_size be at least 1; got filters of {_size(K[0])}, an image of "
            f"{_size(x[0])}, stride={stride}, pool_size={pool_size}."
        )
    parts = conv2d(x[None], K[:, None], stride=stride, groups=len(x))[0]
    total = parts.sum(0) + bias
    if pool != "none" and pool_size > min(total.shape):
        raise OptionError(
            f"pool_size={pool_size} is larger than the map, {_size(total)}. Take a smaller one, or pool=none."
        )
    pooling = max_pool2d if pool == "max" else avg_pool2d
    pooled = total[:0] if pool == "none" else pooling(total[None], pool_size)[0]
    return Convolution(x, K, float(bias), stride, parts, total, pool, pool_size, pooled)


def _channels(name: str, values: Any) -> Float[Tensor, "C H W"]:
    """As a tensor with channels."""
    try:
        found = torch.as_tensor(values, dtype=torch.float64)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{name} must be rows of numbers, all of one length; {error}.") from None
    found = found[None] if found.ndim == 2 else found
    if found.ndim != 3 or not found.numel() or not found.isfinite().all():
        raise ShapeError(f"{name} must be finite numbers [C, H, W] or [H, W]; got {list(found.shape)}.")
    return found


def _size(values: Tensor) -> str:
    rows, columns = values.shape
    return f"{rows} × {columns}"
