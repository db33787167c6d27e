"""Pairs of sequences: reading them, splitting them, and batches of those of similar length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Unpack

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recurra.data.batches import Batch, Examples, Order, windows
from recurra.data.comma_separated import rows_of
from recurra.data.guard import reads
from recurra.data.text import read_documents, split_lines
from recurra.errors import DataError
from recurra.types import Int


class Pair(NamedTuple):
    """A text, and what it should become."""

    source: str
    target: str


class PairSplit(NamedTuple):
    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


@reads
def read_pairs(path: str | Path, target_path: str | Path | None = None) -> list[Pair]:
    """The pairs of a file with two columns, or of two files that are read line by line, side by side.

    Columns are separated by a tab, or in a file called `.csv` by a comma, with quotes where a column holds one. There is no
    line of titles. Where every line has the same further columns (whose sentence it is, say), the first two are read. A source
    must not be empty; a target may be. Text as `read_documents` takes it: UTF-8, plain or `.gz`.

    ```python
    from pathlib import Path

    Path("german-english.tsv").write_text("eins\\tone\\nzwei\\ttwo\\n")
    rc.data.read_pairs("german-english.tsv")           # or two files with a line each: read_pairs("corpus.de", "corpus.en")
    ```
    """
    if target_path is None:
        pairs = _columns(path, _read(path))
    else:
        sources, targets = _lines(_read(path)), _lines(_read(target_path))
        if len(sources) != len(targets):
            raise DataError(
                f"{path} has {len(sources):,} lines and {target_path} has {len(targets):,}: line k of one is the pair of "
                "line k of the other. Give files with as many lines."
            )
        pairs = [(k, *pair) for k, pair in enumerate(zip(sources, targets, strict=True), 1)]
    empty = [line for line, source, _ in pairs if not source.strip()]
    if empty:
        more = f" ({len(empty)} such lines in all)" if len(empty) > 1 else ""
        raise DataError(f"{path}, line {empty[0]}: the source is empty{more}. Fill it or leave the pair out.")
    return [Pair(source, target) for _, source, target in pairs]


def _read(path: str | Path) -> str:
    documents = read_documents(path)
    if len(documents) > 1:
        raise DataError(f"{path} is {len(documents)} files; pairs are read from one. Name it.")
    return documents[0].text


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def _columns(path: str | Path, text: str) -> list[tuple[int, str, str]]:
    """The number of each line, and its two columns."""
    if str(path).removesuffix(".gz").endswith(".csv"):
        rows = list(rows_of(path, text, ","))
        between = "a comma"
    else:
        rows = [(k, line.split("\t")) for k, line in enumerate(_lines(text), 1)]
        between = "a tab"
    widths = {len(row) for _, row in rows if any(row)}  # a line with nothing in it is an empty source
    width = max(2, *widths) if len(widths) == 1 else 2
    for line, row in rows:
        if len(row) != width and any(row):
            raise DataError(
                f"{path}, line {line}: a pair is two columns with {between} between them; found {len(row)}. Correct the line, "
                "or name two files (data.path and data.target_path)."
            )
    return [(line, *(row[:2] if len(row) == width else ("", ""))) for line, row in rows]


def split_pairs(pairs: Sequence[Pair], valid: float, test: float, seed: int = 0) -> PairSplit:
    """Pairs shuffled into three parts. All pairs of one source go to the same part: no part knows a source of another."""
    parts = split_lines(list(dict.fromkeys(pair.source for pair in pairs)), valid, test, seed)
    place = {source: k for k, part in enumerate(parts) for source in part}
    dealt: tuple[list[Pair], ...] = ([], [], [])
    for pair in pairs:
        dealt[place[pair.source]].append(pair)
    return PairSplit(*dealt)


@dataclass(frozen=True, kw_only=True)
class PairBatch(Batch):
    """`inputs`, `targets` and `lengths` are of the target sequences; past the end of a source there are zeros too."""

    source: Int[Tensor, "B S"]
    source_lengths: Int[Tensor, " B"]


class Pairs(Examples):
    """Many pairs of sequences of tokens.

    A target brings its own start and end: its inputs are all but the last token, its targets all but the first.
    """

    def __init__(
        self, pairs: Sequence[tuple[Int[Tensor, " n"], Int[Tensor, " m"]]], batch_size: int, **order: Unpack[Order]
    ):
        if not pairs:
            raise DataError("Batches of pairs were asked for, but there is no pair. Give at least one.")
        self._sources, self._targets = (_Ragged([pair[k] for pair in pairs]) for k in (0, 1))
        for what, side, least in (("source", self._sources, 1), ("target", self._targets, 2)):
            if int(side.sizes.min()) < least:
                raise DataError(
                    f"A {what} needs at least {least} token(s); number {int(side.sizes.argmin())} has {int(side.sizes.min())}."
                )
        super().__init__(self._sources.sizes + self._targets.sizes - 1, batch_size, **order)

    def _take(self, rows: npt.NDArray[np.int64]) -> PairBatch:
        everyone, share = torch.from_numpy(rows), self._share(rows)
        source_lengths, lengths = self._sources.sizes[share], self._targets.sizes[share] - 1
        # widths are those of all ranks, so that they agree on them
        all_lengths = self._targets.sizes[everyone] - 1
        width, source_width = int(all_lengths.max()), int(self._sources.sizes[everyone].max())
        inputs, targets = windows(self._targets.ids, self._targets.starts[share], lengths, width)
        source, _ = windows(self._sources.ids, self._sources.starts[share], source_lengths, source_width)
        return PairBatch(
            inputs,
            targets,
            lengths,
            fresh=True,
            all_rows=len(rows),
            all_tokens=int(all_lengths.sum()),
            source=source,
            source_lengths=source_lengths,
        )


class _Ragged:
    """Sequences end to end, with where each starts."""

    def __init__(self, sequences: Sequence[Int[Tensor, " n"]]):
        self.ids = torch.cat(list(sequences)).to(torch.int64)
        self.sizes = torch.tensor([len(sequence) for sequence in sequences])
        self.starts = self.sizes.cumsum(0) - self.sizes
