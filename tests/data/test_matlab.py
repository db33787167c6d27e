"""MATLAB's files: what SciPy writes is read again, packed or not, and damage is refused."""

from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from recurra.data.matlab import read_cells
from recurra.errors import DataError


def cells(*arrays: np.ndarray) -> np.ndarray:
    made = np.empty((1, len(arrays)), dtype=object)
    made[0] = arrays
    return made


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("kind", ["u1", "i2", "f4", "f8", "i4"])
def test_cells_of_numbers(tmp_path: Path, packed: bool, kind: str) -> None:
    one, two = np.arange(12).reshape(4, 3).astype(kind), np.array([[300 % 256]]).astype(kind)
    file = tmp_path / "file.mat"
    savemat(file, {"some": cells(one, two), "alone": one, "text": "words", "x": cells(two)}, do_compression=packed)
    found = read_cells(file)
    assert list(found) == ["some", "x"]
    np.testing.assert_array_equal(found["some"][0], one)
    np.testing.assert_array_equal(found["some"][1], two)
    assert found["some"][0].shape == (4, 3)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "file.mat"
    with pytest.raises(DataError, match="cannot be read"):
        read_cells(file)
    file.write_bytes(b"text")
    with pytest.raises(DataError, match="no MATLAB file of level 5"):
        read_cells(file)
    for packed in (True, False):
        savemat(file, {"some": cells(np.ones((30, 30)))}, do_compression=packed)
        whole = file.read_bytes()
        for size in (130, 150, 200, len(whole) - 9):
            file.write_bytes(whole[:size])
            with pytest.raises(DataError, match="is damaged"):
                read_cells(file)
