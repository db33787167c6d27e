"""IDX and `.npz`: the images that were written are the sequences that are read."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from recurra.data.images import as_sequences, is_idx, read_image_rows
from recurra.errors import DataError

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 3, 4), dtype=np.uint8)
LABELS = np.array([1, 0, 1, 2, 0], dtype=np.uint8)


def idx(values: np.ndarray) -> bytes:
    return bytes([0, 0, 8, values.ndim]) + np.array(values.shape, dtype=">u4").tobytes() + values.tobytes()


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_idx_with_its_labels_beside(tmp_path: Path, ending: str) -> None:
    pack = gzip.compress if ending else bytes
    file = tmp_path / f"train-images-idx3-ubyte{ending}"
    file.write_bytes(pack(idx(IMAGES)))
    assert is_idx(file)
    images, labels = read_image_rows(file, "train")
    np.testing.assert_array_equal(images, IMAGES)
    assert labels is None
    (tmp_path / f"train-labels-idx1-ubyte{ending}").write_bytes(pack(idx(LABELS)))
    np.testing.assert_array_equal(read_image_rows(file, "train")[1], LABELS)


def test_the_other_spelling_of_mnist(tmp_path: Path) -> None:
    (tmp_path / "t10k-images.idx3-ubyte").write_bytes(idx(IMAGES))
    (tmp_path / "t10k-labels.idx1-ubyte").write_bytes(idx(LABELS))
    np.testing.assert_array_equal(read_image_rows(tmp_path / "t10k-images.idx3-ubyte", "train")[1], LABELS)


def test_npz_with_parts(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=IMAGES, y_train=LABELS, x_test=IMAGES[:2], y_test=LABELS[:2])
    for part, size in (("train", 5), ("test", 2)):
        images, labels = read_image_rows(tmp_path / "a.npz", part)
        np.testing.assert_array_equal(images, IMAGES[:size])
        np.testing.assert_array_equal(labels, LABELS[:size])


def test_rows_pixels_and_one_permutation_for_all() -> None:
    rows, pixels = as_sequences(IMAGES), as_sequences(IMAGES, pixels=True)
    assert rows.shape == (5, 3, 4)
    assert pixels.shape == (5, 12, 1)
    np.testing.assert_allclose(rows.reshape(5, -1), IMAGES.reshape(5, -1) / np.float32(255))
    np.testing.assert_array_equal(rows.reshape(5, -1), pixels[:, :, 0])
    mixed = as_sequences(IMAGES, pixels=True, permute=True, seed=3)
    order = [int(np.flatnonzero((mixed[:, k, 0][:, None] == pixels[:, :, 0]).all(0))[0]) for k in range(12)]
    assert sorted(order) == list(range(12))
    assert order != list(range(12))
    np.testing.assert_array_equal(mixed, as_sequences(IMAGES, pixels=True, permute=True, seed=3))
    assert (mixed != as_sequences(IMAGES, pixels=True, permute=True, seed=4)).any()


def test_refused(tmp_path: Path) -> None:
    file = tmp_path / "train-images-idx3-ubyte"
    for data, words in (
        (b"", "begins with nothing"),
        (b"PK34 something else", "begins with 50 4b"),
        (idx(IMAGES)[:-1], "76 bytes by its own head; it has 75"),
        (idx(LABELS), "not images"),
    ):
        file.write_bytes(data)
        with pytest.raises(DataError, match=words):
            read_image_rows(file, "train")
    file.write_bytes(idx(IMAGES))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(LABELS[:4]))
    with pytest.raises(DataError, match=r"labels \[4\] do not fit 5 images"):
        read_image_rows(file, "train")
    np.savez(tmp_path / "b.npz", a=LABELS)
    with pytest.raises(DataError, match="holds a; an array x"):
        read_image_rows(tmp_path / "b.npz", "train")
    (tmp_path / "c.npz").write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"cannot be read as \.npz"):
        read_image_rows(tmp_path / "c.npz", "train")
