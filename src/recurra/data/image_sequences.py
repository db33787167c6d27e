"""Images as sequences: of rows, or of pixels, in their order or in another that is the same for all.

Files are IDX, as MNIST comes in (`train-images-idx3-ubyte`, gzip too, the labels beside it), or NumPy's `.npz` with arrays
`x` and `y` (or `x_train`, `y_train`, `x_test`, `y_test`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from recurra.data.images import labels_beside, read_array, read_npz
from recurra.errors import DataError

Array = npt.NDArray[Any]


def is_idx(path: Path) -> bool:
    """Whether the name is that of an IDX file: it ends in `idx3-ubyte` or the like, and `.gz` perhaps."""
    return re.search(r"idx\d-ubyte(\.gz)?$", path.name) is not None


def read_image_rows(path: Path, part: str) -> tuple[Array, Array | None]:
    """Numbers `[N, rows, columns]`, or `[N, steps, 1]` of `[N, steps]`, and their labels, if there are any.

    - `part`: of an .npz file with several, train or test.
    """
    if is_idx(path):
        images, beside = read_array(path), labels_beside(path)
        labels = None if beside is None else read_array(beside)
    else:
        images, labels = read_npz(path, part)
        images = images[:, :, None] if images.ndim == 2 else images
    if images.ndim != 3 or not np.issubdtype(images.dtype, np.number):
        raise DataError(
            f"{path} holds {images.dtype} {list(images.shape)}, not images [N, rows, columns] nor sequences [N, steps] or "
            "[N, steps, channels] of numbers. Name another file."
        )
    if labels is not None and (labels.ndim != 1 or len(labels) != len(images)):
        raise DataError(
            f"{path}: labels {list(labels.shape)} do not fit {len(images)} images. One label each is needed."
        )
    return images, labels


def as_sequences(
    images: Array, *, pixels: bool = False, permute: bool = False, seed: int = 0
) -> npt.NDArray[np.floating[Any]]:
    """`[N, rows, columns]` as it is or, with `pixels`, `[N, rows · columns, 1]`; bytes become 0 to 1.

    `permute` gives all pixels another order, drawn once from the seed: what was near is far.
    """
    values = images.astype(np.result_type(images.dtype, np.float32))  # float64 keeps its digits
    if images.dtype == np.uint8:
        values /= 255
    flat = values.reshape(len(values), -1)
    if permute:
        flat = flat[:, np.random.default_rng(seed).permutation(flat.shape[1])]
    return flat[:, :, None] if pixels else flat.reshape(values.shape)
