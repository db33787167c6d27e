"""Vectors of words that were learned elsewhere, in the text format of word2vec and GloVe."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from recurra.data.guard import PART, open_file, reads
from recurra.data.limits import check_limit
from recurra.errors import DataError, quoted

LONGEST_LINE = 1 << 22
"""Bytes of a line."""


@dataclass(frozen=True, eq=False)
class WordVectors:
    """`size`: how many numbers a vector has; `vectors`: those of the words that were asked for and found."""

    size: int
    vectors: dict[str, npt.NDArray[np.float32]]

    def find(self, word: str) -> npt.NDArray[np.float32] | None:
        """The vector of a word: its own, or else that of the word in lower case."""
        return self.vectors.get(word, self.vectors.get(word.lower()))


@reads
def read_vectors(path: str | Path, words: Collection[str]) -> WordVectors:
    """The vectors of some words, from a file that has `WORD v1 … vD` on each line, gzip too.

    A first line `N D` is a header. The file is read line by line, and only the vectors of `words`, or of their lower-case forms,
    are kept; of several for one word, the first.

    ```python
    from pathlib import Path

    Path("vectors.txt").write_text("good 0.5 1\\nbad -0.5 -1\\n")
    rc.data.read_vectors("vectors.txt", ["Good", "film"]).find("Good")        # that of "good"; "film" has none
    ```
    """
    wanted = {word.encode("utf-8", "surrogatepass"): word for each in words for word in (each, each.lower())}
    vectors: dict[str, npt.NDArray[np.float32]] = {}
    size = 0
    for number, line in _lines(path):
        where = f"{path}, line {number}"
        if not size:
            fields = line.split()
            if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
                size = int(fields[1][:9])
            else:
                size = len(fields) - 1
            if size < 1:
                raise DataError(f"{where}: expected WORD and its numbers, or a header N D; found {_shown(line)}.")
            check_limit("columns", size, where)
            check_limit("cells", size * len(wanted), f"{len(wanted):,} words of {size} numbers", "Set data.min_count.")
            if len(fields) != size + 1:
                continue
        word, *numbers = line.rsplit(maxsplit=size)
        known = wanted.get(word)
        if known is None or known in vectors:
            continue
        try:
            vector = np.array(numbers, dtype=np.float32)
        except ValueError:
            vector = np.array([np.nan], dtype=np.float32)
        if len(vector) != size or not np.isfinite(vector).all():
            raise DataError(f"{where}: expected a word and {size} finite numbers, found {_shown(line)}.")
        vectors[known] = vector
    if not size:
        raise DataError(f"{path} holds no vectors. A line is WORD v1 v2 …")
    return WordVectors(size, vectors)


def _lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not empty, with their numbers; only a part of the file is in memory."""
    done, rest = 0, b""
    with open_file(path) as stream:
        while part := stream.read(PART):
            *lines, rest = (rest + part).split(b"\n")
            yield from ((done + k, line) for k, line in enumerate(lines, start=1) if line.strip())
            done += len(lines)
            if len(rest) > LONGEST_LINE:
                raise DataError(f"{path}, line {done + 1} has over {LONGEST_LINE:,} bytes: it is no file of vectors.")
    if rest.strip():
        yield done + 1, rest


def _shown(line: bytes) -> str:
    return quoted(line[:200].decode("utf-8", "replace"))


__all__ = ["WordVectors", "read_vectors"]
