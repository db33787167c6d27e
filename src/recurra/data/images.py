"""Images with labels, from IDX and NumPy's files; whole, or as sequences of rows or of pixels.

IDX is the format of MNIST (`train-images-idx3-ubyte`, gzip too, the labels beside it). An `.npz` file has arrays `x` and `y`, or
`x_train`, `y_train`, `x_test` and `y_test`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from recurra.data.arrays import AXES, Array, check_values, label_words, read_members, read_npy
from recurra.data.classes import Labelled, number_classes
from recurra.data.guard import read_bytes, reads
from recurra.errors import DataError, listed

IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
CHANNELS = 4
"""An axis of at most this size, first or last, is that of the channels."""


@reads
def read_images(path: str | Path, labels: str | Path | None = None, classes: Sequence[str] | None = None) -> Labelled:
    """Images `[N, C, H, W]` and their classes.

    ```python
    read_images("digits.npz")                          # arrays x and y, or images and labels
    read_images("images.npy", "labels.npy")
    read_images("train-images-idx3-ubyte.gz")          # labels: train-labels-idx1-ubyte.gz beside it
    ```

    - `labels`: the file of labels; without it, that of the images with `labels` for `images` in its name.
    - `classes`: those of a trained model.

    Images are `[N, H, W]` with one channel, `[N, C, H, W]` or `[N, H, W, C]`.
    """
    file = Path(path)
    if file.suffix == ".npz":
        images, given = read_npz(file)
    else:
        beside = labels_beside(file) if labels is None else Path(labels)
        images, given = read_array(file), None if beside is None else read_array(beside)
    if given is None:
        raise DataError(f"{file.name} has no labels, and no file of them is beside it. Give data.label_file=FILE.")
    if given.ndim != 1 or len(given) != len(images) or given.dtype.kind not in "iuUS":
        raise DataError(
            f"{file.name}: {len(images)} images need as many labels, whole numbers or words along one axis; "
            f"found {list(given.shape)} of {given.dtype}."
        )
    words = label_words(given, file.name)
    numbers, found = number_classes(words, file.name, classes)
    x = _with_channels(file.name, images)
    size = "×".join(str(n) for n in x.shape[1:])
    return Labelled(torch.from_numpy(x), numbers, tuple(found), about=f"{file.name}: {len(x):,} images of {size}")


def read_npz(path: Path, part: str = "train") -> tuple[Array, Array | None]:
    """The arrays `x` and `y`, or those of a part: `x_train` and `y_train`, `x_test` and `y_test`."""
    x = (f"x_{part}", "x", "images", "data", "arr_0")
    y = (f"y_{part}", "y", "labels", "targets", "arr_1")
    (images, labels), found = read_members(path, (x, y))
    if images is None:
        raise DataError(f"{path} holds {listed(found) or 'no array'}; an array x is needed, and labels y.")
    return images, labels


def labels_beside(path: Path) -> Path | None:
    """The file of labels beside one of images, if there is one: `labels` for `images` in its name."""
    beside = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1").replace("idx4", "idx1"))
    return beside if beside != path and beside.exists() else None


@reads
def read_array(file: Path) -> Array:
    """The array of a .npy file, or of an IDX file (plain or .gz)."""
    return read_npy(file) if file.suffix == ".npy" else _read_idx(file, read_bytes(file))


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
    if images.ndim != 3 or images.dtype.kind not in "biuf" or not images.size:
        raise DataError(
            f"{path} holds {images.dtype} {list(images.shape)}, not images [N, rows, columns] nor sequences [N, steps] or "
            "[N, steps, channels] of numbers. Name another file."
        )
    if labels is not None and (labels.ndim != 1 or len(labels) != len(images)):
        raise DataError(f"{path}: labels {list(labels.shape)} do not fit {len(images)} images. Give one each.")
    check_values(images, str(path))
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
        flat = flat[:, np.random.default_rng(seed % 2**64).permutation(flat.shape[1])]
    return flat[:, :, None] if pixels else flat.reshape(values.shape)


def _read_idx(file: Path, data: bytes) -> Array:
    """Two zero bytes, a type, the number of axes, the sizes as big-endian 32-bit numbers, the values. LeCun et al. 1998."""
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in IDX_TYPES:
        raise DataError(f"{file} is neither .npy nor IDX: it begins with {data[:4].hex(' ') or 'nothing'}.")
    axes = data[3]
    start = 4 + 4 * axes
    if not 1 <= axes <= AXES or len(data) < start:
        raise DataError(f"{file} has {axes} axes by its own head; 1 to {AXES} are read. Get it again.")
    sizes: list[int] = np.frombuffer(data[4:start], dtype=">u4").tolist()
    kind = np.dtype(IDX_TYPES[data[2]])
    wanted = start + math.prod(sizes) * kind.itemsize
    if len(data) != wanted or wanted == start:
        raise DataError(f"{file} should have {wanted:,} bytes by its own head; it has {len(data):,}. Get it again.")
    return np.frombuffer(data, dtype=kind, offset=start).reshape(sizes).astype(kind.newbyteorder("="))


def _with_channels(name: str, images: Array) -> Array:
    if images.ndim not in (3, 4) or images.dtype.kind not in "iuf" or not images.size:
        raise DataError(
            f"{name}: images are numbers [N, H, W] or [N, C, H, W]; found {images.dtype} {list(images.shape)}."
        )
    if np.isnan(images).any():
        raise DataError(f"{name}: some pixels are not finite numbers. Replace them.")
    check_values(images, name)
    if images.dtype.kind == "u" and images.dtype.itemsize > 1:
        images = images.astype(np.int64)  # torch computes with no other unsigned numbers than bytes
    if images.ndim == 3:
        return np.ascontiguousarray(images[:, None])
    if images.shape[1] <= CHANNELS:
        return np.ascontiguousarray(images)
    if images.shape[3] <= CHANNELS:
        return np.ascontiguousarray(np.moveaxis(images, 3, 1))
    raise DataError(f"{name}: which axis of {list(images.shape)} is that of the channels? It has at most {CHANNELS}.")
