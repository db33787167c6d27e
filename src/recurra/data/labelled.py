"""Sequences with a label each, or with one for each of their steps: read from files of many kinds.

| file | sequences | labels |
|---|---|---|
| `.csv`, `.tsv` (gzip too) | a column of text; or all columns but the label, one number a step | a column |
| `.jsonl` | `text`, or `tokens`, or `values` (numbers, or a list of them for each step) | `label` or `tags` |
| `.ts` | series with channels | the last field |
| IDX, `.npz` | images, row by row or pixel by pixel | beside them |
| `.conll`, `.txt` and others, to tag | a token per line, an empty line between sequences | the last field of the line |
| `.txt`, to predict | a text per line, empty ones too | none |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from recurra.data.arrays import label_words
from recurra.data.comma_separated import LARGEST
from recurra.data.guard import reads
from recurra.data.images import as_sequences, is_idx, read_image_rows
from recurra.data.tables import Table, find_columns, read_csv, read_json_lines
from recurra.data.text import read_documents
from recurra.data.ts import number, read_ts
from recurra.errors import DataError, listed, quoted


@dataclass(frozen=True)
class How:
    """How to read a file, beyond what its name tells.

    - `per_step`: labels are of steps (tagging). `labelled`: they are needed; otherwise they are read where they are.
    - `text`, `label`: names of columns; guessed if left out.
    - `pixels`, `permute`, `seed`: of images, as for `as_sequences`. `part`: of an `.npz` file with several, train or test.
    """

    per_step: bool = False
    labelled: bool = True
    text: str | None = None
    label: str | None = None
    pixels: bool = False
    permute: bool = False
    seed: int = 0
    part: str = "train"


@dataclass(frozen=True, eq=False)
class Labelled:
    """Sequences and their labels, as they stood in a file.

    - `kind`: `text` (each a string), `tokens` (a list of strings), `numbers` or `images` (an array `[T, D]`, NaN: missing).
    - `labels`: one of each sequence, or a list for its steps; `None` where the file has none.
    - `columns`: which ones were read, of a table: `text` and `label`.
    """

    kind: str
    sequences: list[Any]
    labels: list[Any] | None
    columns: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sequences)

    def take(self, places: list[int]) -> Labelled:
        """Some of the sequences."""
        labels = None if self.labels is None else [self.labels[k] for k in places]
        return Labelled(self.kind, [self.sequences[k] for k in places], labels, self.columns)


@reads
def read_labelled(path: str | Path, how: How = How()) -> Labelled:
    """The sequences of a file.

    ```python
    from pathlib import Path

    Path("reviews.csv").write_text("text,label\\na fine film,good\\na poor film,bad\\n")
    rc.data.read_labelled("reviews.csv")
    ```
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise DataError(f"{file} is {'a folder' if file.is_dir() else 'no file'}. Name a file with {_wanted(how)}.")
    found = _read(file, how)
    if not len(found):
        raise DataError(f"{file} holds no sequence. Name a file that does.")
    if found.labels is None and how.labelled:
        raise DataError(f"{file} has no labels, which are needed here. Add them, or use recurra predict.")
    return found


def _read(file: Path, how: How) -> Labelled:
    kind = Path(file.name.removesuffix(".gz")).suffix.lower()
    if is_idx(file) or kind == ".npz":
        _refuse_steps(file, how)
        images, names = read_image_rows(file, how.part)
        made = as_sequences(images, pixels=how.pixels, permute=how.permute, seed=how.seed)
        labels = None if names is None else label_words(names, str(file))
        return Labelled("images" if images.dtype == np.uint8 else "numbers", list(made), labels)
    if how.pixels or how.permute:
        raise DataError(f"pixels can be read one by one, or permuted, of images (IDX, .npz); {file} holds none.")
    text = read_documents(file)[0].text
    if not text.strip():
        raise DataError(f"{file} is empty. Name a file with {_wanted(how)}.")
    if kind == ".ts":
        _refuse_steps(file, how)
        return Labelled("numbers", *read_ts(file, text, labelled=how.labelled))
    if kind in (".jsonl", ".ndjson", ".json"):
        return _from_rows(file, read_json_lines(file, text), how)
    if kind in (".csv", ".tsv"):
        _refuse_steps(file, how)
        return _from_rows(file, read_csv(file, text), how)
    if how.per_step:
        return _from_lines(file, text, how)
    if not how.labelled:
        return Labelled("text", text.removesuffix("\n").split("\n"), None)
    raise DataError(f"{file}: the ending {kind or '(none)'} is not known. Use .csv, .tsv, .jsonl, .ts, .npz or IDX.")


def _wanted(how: How) -> str:
    return "labelled sequences" if how.labelled else "sequences; they need no labels"


def _refuse_steps(file: Path, how: How) -> None:
    if how.per_step:
        raise DataError(f"{file} has one label for a sequence; tags are read from .jsonl or from a token per line.")


def _from_rows(file: Path, table: Table, how: How) -> Labelled:
    """Sequences of a table; all are of the kind of the first."""
    if not table.rows:
        raise DataError(f"{file} has columns ({listed(table.columns)}) but no row. Name a file that has rows.")
    names, label = find_columns(file, table, how.text, how.label, labelled=how.labelled)
    sequences, labels, kinds = [], [], []
    for row, place in zip(table.rows, table.places, strict=True):
        for name in (*names, *([] if label is None else [label])):
            if row.get(name) is None:
                raise DataError(f"{place} has no {quoted(name)}. Found: {listed(row)}.")
        if len(names) > 1:
            kind, sequence = "numbers", np.array([[number(row[name], f"{place}, {name:.40}")] for name in names])
        else:
            kind, sequence = _sequence(row[names[0]], f"{place}, {names[0]:.40}")
        kinds.append(kind)
        sequences.append(sequence)
        if label is not None:
            labels.append(_label(row[label], len(sequence), how, f"{place}, {label:.40}"))
        if kind != kinds[0]:
            raise DataError(f"{place}: {names[0]} holds {kind}, but the first row holds {kinds[0]}. Use one of them.")
        if kind == "numbers" and sequence.shape[1] != sequences[0].shape[1]:
            raise DataError(
                f"{place}: the steps have {sequence.shape[1]} channels, but those of the first row have "
                f"{sequences[0].shape[1]}. Give every step the same channels."
            )
    if how.per_step and kinds[0] == "text":
        raise DataError(f"{file}: {names[0]} is a text; to tag its steps, write a list of tokens or of numbers.")
    columns = {"text": names[0]} if len(names) == 1 else {"steps": f"{names[0]} … {names[-1]}"}
    return Labelled(
        kinds[0], sequences, None if label is None else labels, columns | ({"label": label} if label else {})
    )


def _sequence(value: Any, place: str) -> tuple[str, Any]:
    """A value of a row: a text, a list of tokens, or numbers."""
    if isinstance(value, str):
        return "text", value
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return "tokens", value
    steps = [each if isinstance(each, list) else [each] for each in value] if isinstance(value, list) else []
    if not steps or not all(_is_number(each) for step in steps for each in step):
        raise DataError(
            f"{place} is neither a text, nor a list of tokens, nor a list of numbers up to {LARGEST:g}; found {quoted(value)}."
        )
    sizes = sorted({len(step) for step in steps})
    if len(sizes) > 1 or sizes[0] == 0:
        raise DataError(f"{place}: every step must have a number for each channel; found {sizes[0]} to {sizes[-1]}.")
    return "numbers", np.array([[np.nan if each is None else float(each) for each in step] for step in steps])


def _is_number(value: Any) -> bool:
    """Whether it is a number whose square is finite or, as null and NaN, a missing one."""
    if value is None or value != value:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST


def _label(value: Any, steps: int, how: How, place: str) -> Any:
    if not how.per_step:
        if isinstance(value, list | dict):
            raise DataError(f"{place} is {quoted(value)}; a sequence has one label. The recipe tag reads one a step.")
        if how.labelled and not str(value).strip():
            raise DataError(f"{place} is empty. Give every sequence a label, or leave the line out.")
        return str(value).strip()
    if not isinstance(value, list) or len(value) != steps:
        found = f"{len(value)}" if isinstance(value, list) else quoted(value)
        raise DataError(f"{place}: one tag for each of the {steps} steps is needed; found {found}.")
    if how.labelled and any(each is None or not str(each).strip() for each in value):
        raise DataError(f"{place}: a tag is empty. Give every step a tag, or leave the sequence out.")
    return [str(each) for each in value]


def _from_lines(file: Path, text: str, how: How) -> Labelled:
    """A token per line, its tag last (after tabs or spaces); an empty line ends a sequence."""
    sequences: list[list[str]] = [[]]
    tags: list[list[str]] = [[]]
    for row, line in enumerate(text.splitlines(), start=1):
        fields = line.split("\t") if "\t" in line else line.split()
        if not line.strip() or fields[0] == "-DOCSTART-":
            if sequences[-1]:
                sequences.append([])
                tags.append([])
            continue
        if len(fields) < 2 and how.labelled:
            raise DataError(
                f"{file}, line {row}: {quoted(line.strip())} has no tag. Write TOKEN and TAG with a tab between."
            )
        sequences[-1].append(fields[0])
        tags[-1] += fields[-1:] if len(fields) > 1 else []
    if not sequences[-1]:
        sequences, tags = sequences[:-1], tags[:-1]
    has_tags = all(len(one) == len(other) for one, other in zip(sequences, tags, strict=True))
    return Labelled("tokens", sequences, tags if has_tags else None)
