"""All cells by name, and cells named by a user: `gru`, `skip(d=8)`, `elman(activation=relu)`, `FILE.py:NAME`, `FILE.json`."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

from recurra.cells.antisymmetric import antisymmetric
from recurra.cells.carousel import carousel
from recurra.cells.clockwork import clockwork
from recurra.cells.deep_transition import deep_transition
from recurra.cells.delayed import delayed
from recurra.cells.elman import elman
from recurra.cells.gru import gru
from recurra.cells.gru_after import gru_after
from recurra.cells.indrnn import indrnn
from recurra.cells.jordan import jordan
from recurra.cells.leaky import leaky
from recurra.cells.lru import lru
from recurra.cells.lstm import lstm
from recurra.cells.lstm_coupled import lstm_coupled
from recurra.cells.lstm_norm import lstm_norm
from recurra.cells.lstm_peephole import lstm_peephole
from recurra.cells.mingru import mingru
from recurra.cells.minlstm import minlstm
from recurra.cells.notation import Cell
from recurra.cells.orthogonal import orthogonal
from recurra.cells.rotation import rotation
from recurra.cells.skip import skip
from recurra.cells.stored import restore_cell
from recurra.cells.user_file import find_in_file
from recurra.errors import OptionError, nearest, quoted

CATALOGUE: dict[str, Cell] = {
    each.name: each
    for each in (
        *(elman, jordan),
        *(lstm, lstm_peephole, lstm_coupled, lstm_norm),
        *(gru, gru_after),
        *(leaky, skip, delayed, clockwork, deep_transition),
        *(indrnn, mingru, minlstm, lru, rotation, carousel),
        *(antisymmetric, orthogonal),
    )
}

LARGEST_FILE = 4_000_000
"""Bytes of a stored cell."""


def find_cell(name: str) -> Cell:
    """The cell of that name.

    - `name`: a name of the catalogue (`gru`), `FILE.py:NAME` for a cell of your own, either with options in brackets
      (`skip(d=8)`, `elman(activation=relu)`); or `FILE.json` with a cell that `store_cell` described: no code of it is run.

    ```python
    rc.find_cell("elman(activation=relu)").graph.name
    ```
    """
    found = re.fullmatch(r"(?P<base>[^()]+)(?:\((?P<options>.*)\))?", name.strip(), re.DOTALL)
    if not found or not found["base"].strip():
        raise OptionError(
            f"{quoted(name)} is not a cell's name. Write NAME, NAME(option=value), FILE.py:NAME or FILE.json."
        )
    base, options = found["base"].strip(), found["options"]
    path, colon, inner = base.rpartition(":")
    if colon:
        cell: Cell = find_in_file(Path(path), inner, "cell", lambda value: isinstance(value, Cell))
    elif base in CATALOGUE:
        cell = CATALOGUE[base]
    elif base.endswith(".json"):
        cell = _read_stored(Path(base))
    else:
        raise OptionError(
            f"cell {quoted(base)} does not exist.{nearest(base, CATALOGUE)} Your own: FILE.py:NAME or FILE.json."
        )
    return cell(**_options(options, name)) if options else cell


def _read_stored(path: Path) -> Cell:
    """A cell that a file describes as JSON."""
    path = path.expanduser()
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise OptionError(f"{str(path)!r} has more than {LARGEST_FILE:,} bytes: it is not a stored cell.")
        stored = json.loads(path.read_bytes())
    except OSError as error:
        raise OptionError(f"the cell {str(path)!r} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError):
        raise OptionError(
            f"{str(path)!r} is not JSON. A cell is stored with recurra.cells.stored.store_cell."
        ) from None
    return restore_cell(stored)


def _options(text: str, name: str) -> dict[str, object]:
    """`d=8, activation=relu` as a dictionary; a bare word is a string."""
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(keyword.arg is None for keyword in call.keywords):
            raise ValueError
        return {
            str(k.arg): k.value.id if isinstance(k.value, ast.Name) else ast.literal_eval(k.value)
            for k in call.keywords
        }
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise OptionError(
            f"the options in {quoted(name)} cannot be read. Write them as NAME(option=value, ...)."
        ) from None
