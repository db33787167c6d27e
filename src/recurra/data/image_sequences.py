"""Images as sequences: of rows, or of pixels, in their order or in another that is the same for all.

Files are IDX, as MNIST comes in (`train-images-idx3-ubyte`, gzip too, the labels beside it), or NumPy's `.npz` with arrays
`x` and `y` (or `x_train`, `y_train`, `x_test`, `y_test`).
"""

from __future__ import annotations

import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from recurra.data.images import read_array
from recurra.errors import DataError

Array = npt.NDArray[Any]


def is_idx(path: Path) -> bool:
    """Whether the name is that of an IDX file: it ends in `idx3-ubyte` or the like, and `.gz` perhaps."""
    return re.search(r"idx\d-ubyte(\.gz)?$", path.name) is not None


def read_idx(path: Path) -> tuple[Array, Array | None]:
    """Images `[N, rows, columns]` and, if its file lies beside, their labels."""
    images = read_array(path)
    if images.ndim != 3:
        raise DataError(
            f"{path} holds numbers {list(images.shape)}, not images [N, rows, columns]. Name the idx3 file."
        )
    beside = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1"))
    if beside == path or not beside.exists():
        return images, None
    labels = read_array(beside)
    _check_count(beside, labels, images)
    return images, labels


def read_npz(path: Path, part: str) -> tuple[Array, Array | None]:
    """The arrays `x` and `y`, or those of a part: `x_train` and `y_train`, `x_test` and `y_test`."""
    try:
        with np.load(path, allow_pickle=False) as saved:
            found = {name.lower(): name for name in saved.files}
            chosen = [
                next((found[name] for name in names if name in found), None)
                for names in (
                    (f"x_{part}", "x", "images", "data", "arr_0"),
                    (f"y_{part}", "y", "labels", "targets", "arr_1"),
                )
            ]
            images, labels = (None if name is None else saved[name] for name in chosen)
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(
            f"{path} cannot be read as .npz ({error}). Write it with numpy.savez(path, x=…, y=…)."
        ) from error
    if images is None or images.ndim not in (2, 3):
        raise DataError(
            f"{path} holds {', '.join(found.values()) or 'no array'}; an array x [N, steps] or [N, steps, channels] is needed."
        )
    if not np.issubdtype(images.dtype, np.number):
        raise DataError(f"{path}: x holds {images.dtype}, not numbers.")
    if labels is not None:
        _check_count(path, labels, images)
    return images[:, :, None] if images.ndim == 2 else images, labels


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


def _check_count(path: Path, labels: Array, images: Array) -> None:
    if labels.ndim != 1 or len(labels) != len(images):
        raise DataError(
            f"{path}: labels {list(labels.shape)} do not fit {len(images)} images. One label each is needed."
        )
