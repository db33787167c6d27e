"""Piano rolls: pieces of music as frames of 88 keys, each down or not, in the parts that a file gives."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recurra.data.guard import read_bytes, reads
from recurra.data.limits import check_limit
from recurra.data.matlab import read_cells
from recurra.data.utf8 import decode
from recurra.errors import DataError, listed, quoted
from recurra.types import Float

KEYS, LOWEST = 88, 21
"""Of a piano, and the MIDI note of its lowest key."""
PARTS = ("train", "valid", "test")
NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")


@dataclass(frozen=True, eq=False)
class Rolls:
    """Pieces for training, validation and test: 1 where a key is down, `[T, 88]` each."""

    train: list[Float[Tensor, "T K"]]
    valid: list[Float[Tensor, "T K"]]
    test: list[Float[Tensor, "T K"]]


@reads
def read_rolls(path: str | Path) -> Rolls:
    """The three parts of a file, as it splits them.

    - `.mat`: cell arrays `traindata`, `validdata` and `testdata`, of pieces with a row of 88 numbers, 0 or 1, for each frame.
    - `.json`: `{"train": [PIECE, …], "valid": …, "test": …}`; a piece is a list of frames,
      a frame a list of MIDI notes, 21 to 108.
    """
    read = _from_matlab if Path(path).suffix.lower() == ".mat" else _from_json
    parts = read(path)
    for name in PARTS:
        for k, piece in enumerate(parts[name], 1):
            if len(piece) < 2:
                raise DataError(
                    f"{path}, {name}, piece {k} has {len(piece)} frames; at least 2 are needed. Leave it out."
                )
        if not parts[name] and name != "test":
            raise DataError(f"{path} has no piece in the part {name!r}. Give one to learn from and one to choose by.")
    return Rolls(**parts)


def key_name(key: int) -> str:
    """What a key is called, with its octave: 39 is C4."""
    note = key + LOWEST
    return f"{NAMES[note % 12]}{note // 12 - 1}"


def _from_matlab(path: str | Path) -> dict[str, list[Tensor]]:
    cells = read_cells(path)
    parts: dict[str, list[Tensor]] = {}
    for name in PARTS:
        if f"{name}data" not in cells:
            raise DataError(f"{path} has no cell array {name}data. It has: {listed(cells) or 'none'}.")
        for k, piece in enumerate(cells[f"{name}data"]):
            if piece.ndim != 2 or piece.shape[1] != KEYS or not np.isin(piece, (0, 1)).all():
                raise DataError(
                    f"{path}, {name}data, piece {k + 1}: a piece is rows of {KEYS} numbers, 0 or 1; got {list(piece.shape)}."
                )
        parts[name] = [torch.from_numpy(piece.astype(np.float32)) for piece in cells[f"{name}data"]]
    return parts


def _from_json(path: str | Path) -> dict[str, list[Tensor]]:
    try:
        found = json.loads(decode(read_bytes(path), str(path)))
    except ValueError as error:
        raise DataError(f"{path} is neither .mat nor JSON: {error}. Write train, valid and test.") from error
    parts: dict[str, list[Tensor]] = {}
    for name in PARTS:
        if not isinstance(found, dict) or not isinstance(found.get(name), list):
            raise DataError(f"{path} has no list {name!r}. Write train, valid and test, each a list of pieces.")
        frames = sum(len(piece) for piece in found[name] if isinstance(piece, list))
        check_limit("unpacked", frames * KEYS * 4, f"{path}, {name}, {frames:,} frames")
        parts[name] = [_piece(path, name, k, frames) for k, frames in enumerate(found[name])]
    return parts


def _piece(path: str | Path, part: str, number: int, frames: Any) -> Tensor:
    roll = torch.zeros(len(frames) if isinstance(frames, list) else 0, KEYS)
    for t, notes in enumerate(frames if isinstance(frames, list) else [None]):
        for note in notes if isinstance(notes, list) else [None]:
            if not isinstance(note, int | float) or note % 1 or not LOWEST <= note < LOWEST + KEYS:
                raise DataError(
                    f"{path}, {part}, piece {number + 1}, frame {t + 1}: a frame is a list of MIDI notes, {LOWEST} to "
                    f"{LOWEST + KEYS - 1}; got {quoted(note if isinstance(notes, list) else notes)}."
                )
            roll[t, int(note) - LOWEST] = 1
    return roll
