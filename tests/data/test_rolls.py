"""Piano rolls from MATLAB's files and from JSON, and what is refused with its place."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import savemat

from recurra.data.rolls import key_name, read_rolls
from recurra.errors import DataError
from tests.data.test_matlab import cells

PIECE = [[60, 64], [], [108, 21]]


def write(folder: Path, **parts: object) -> Path:
    file = folder / "rolls.json"
    file.write_text(json.dumps({"train": [PIECE], "valid": [PIECE], "test": []} | parts))
    return file


def test_notes_become_keys(tmp_path: Path) -> None:
    rolls = read_rolls(write(tmp_path, test=[PIECE, PIECE[:2]]))
    assert [len(part) for part in (rolls.train, rolls.valid, rolls.test)] == [1, 1, 2]
    assert rolls.train[0].shape == (3, 88)
    assert rolls.train[0].nonzero().tolist() == [[0, 39], [0, 43], [2, 0], [2, 87]]
    assert [key_name(key) for key in (0, 39, 48, 87)] == ["A0", "C4", "A4", "C8"]


def test_from_matlab(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    parts = {name: [random.integers(0, 2, (n, 88)).astype("u1") for n in (4, 7)] for name in ("train", "valid", "test")}
    savemat(tmp_path / "rolls.mat", {f"{name}data": cells(*pieces) for name, pieces in parts.items()})
    rolls = read_rolls(tmp_path / "rolls.mat")
    assert torch.equal(rolls.valid[1], torch.from_numpy(parts["valid"][1]).float())
    savemat(tmp_path / "rolls.mat", {"traindata": cells(np.full((3, 88), 2))})
    with pytest.raises(DataError, match="traindata, piece 1: a piece is rows of 88 numbers, 0 or 1"):
        read_rolls(tmp_path / "rolls.mat")
    savemat(tmp_path / "rolls.mat", {"data": cells(np.zeros((3, 88)))})
    with pytest.raises(DataError, match=r"no cell array traindata\. It has: data"):
        read_rolls(tmp_path / "rolls.mat")


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"train": []}, "no piece in the part 'train'"),
        ({"valid": None}, "no list 'valid'"),
        ({"valid": [[[60]]]}, "valid, piece 1 has 1 frames"),
        (
            {"train": [PIECE, [[60], [20]]]},
            "train, piece 2, frame 2: a frame is a list of MIDI notes, 21 to 108; got 20",
        ),
        ({"train": [[[60], 60]]}, "train, piece 1, frame 2: .* got 60"),
        ({"train": ["words"]}, "train, piece 1, frame 1"),
        ({"train": [[[60], ["C"]]]}, "frame 2"),
    ],
)
def test_what_is_refused(tmp_path: Path, parts: dict[str, object], said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_rolls(write(tmp_path, **parts))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_rolls(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("{")
    with pytest.raises(DataError, match=r"neither \.mat nor JSON"):
        read_rolls(tmp_path / "text.json")
