"""Units over text: the texts and labels of a search among a language model's units, and the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from recurra.analysis.column_labels import column_name, is_column, read_column
from recurra.analysis.neurons import Activity, Unit, read_unit
from recurra.analysis.source_labels import Labeller, Values, python_labels, text_labels
from recurra.analysis.unit_study import PIECE, Piece, Reading, UnitStudy, deal, read_pieces, read_texts, study_units
from recurra.analysis.user_labels import read_labeller
from recurra.data.text import Document, read_documents
from recurra.errors import OptionError, choose_from
from recurra.results import Result
from recurra.tasks.capabilities import ReadsText, find

Texts = tuple[list[str], Labeller, dict[str, list[Values]], list[str]]
"""Texts, what labels them, labels that tables give them, and the names of the labels that were asked for."""


@dataclass(frozen=True)
class Context:
    """A token in its text, and the value of a unit after it."""

    before: str
    token: str
    after: str
    value: float


@dataclass(frozen=True, eq=False)
class UnitReading(Result):
    """A unit over the texts that it reads; `label`: what is underlined beside it."""

    unit: Unit
    reading: Reading
    activity: Activity
    label: str | None

    @property
    def values(self) -> Tensor:
        """Its value after each token of the first text."""
        return self.activity.of(self.unit)[: int(self.reading.lengths[0])]

    def contexts(self, count: int = 5, width: int = 32) -> tuple[list[Context], list[Context]]:
        """Where the unit is highest, and where it is lowest, over all the texts: not two places within one window."""
        values, places = self.activity.of(self.unit), self._places()

        def first(order: Tensor) -> list[Context]:
            taken: dict[int, tuple[int, int]] = {}
            for at in order.tolist():
                text, end = places[at]
                if all(text != other or abs(end - there) > width for other, there in taken.values()):
                    taken[at] = places[at]
                if len(taken) == count:
                    break
            return [self._context(*places[at], places[at - 1], float(values[at]), width) for at in taken]

        return first(values.argsort(descending=True)), first(values.argsort())

    def _places(self) -> list[tuple[int, int]]:
        """Of each token that is read: the number of its text, and how many characters have been read with it."""
        return [(k, int(end)) for k, spans in enumerate(self.reading.spans) for end in spans.tolist()]

    def _context(self, text: int, end: int, before: tuple[int, int], value: float, width: int) -> Context:
        whole = self.reading.texts[text]
        begin = min(end, before[1]) if before[0] == text else 0
        return Context(whole[max(0, begin - width) : begin], whole[begin:end], whole[end : end + width // 2], value)

    def __str__(self) -> str:
        return f"unit {self.unit}: {float(self.values.min()):.3f} (orange) to {float(self.values.max()):.3f} (blue)"

    def to_json(self) -> dict[str, Any]:
        return {"unit": str(self.unit), "symbols": self.reading.tokens(0), "values": self.values.tolist()}


def usual_labels(names: Sequence[str]) -> Labeller:
    """The labels that suit files of these names: those of Python's tokens for Python source."""
    return python_labels if all(each.removesuffix(".gz").endswith(".py") for each in names) else text_labels


def find_units(
    task: Any,
    model: Any,
    labels: Sequence[Any] = (),
    text: Any = None,
    *,
    gates: bool = True,
    size: int = 100_000,
    seed: int = 0,
    **options: Any,
) -> UnitStudy:
    """Single units that follow labels, chosen on one part of the text and scored on another, beside controls."""
    reader = find(task, ReadsText, "units")
    texts, labeller, columns, names = _read(reader, text, labels)
    chosen, scored = (read_pieces(reader.tokenizer, texts, part, labeller, columns) for part in deal(texts, size))
    before = task.untrained_model()
    return study_units(model, before, chosen, scored, names or None, gates=gates, seed=seed, **options)


def read_one_unit(
    task: Any, model: Any, unit: str, labels: Sequence[Any] = (), text: Any = None, size: int = 100_000
) -> UnitReading:
    """One unit over the text, with the first label that was asked for."""
    reader = find(task, ReadsText, "units")
    texts, labeller, columns, names = _read(reader, text, labels)
    shown = read_unit(unit, model.recurrent)
    pieces = [Piece(k, slice(0, PIECE)) for k in range(len(texts))][: max(1, size // PIECE)]
    reading = read_pieces(reader.tokenizer, texts, pieces, labeller, columns)
    label = choose_from("label", names[0], reading.labels) if names else None
    return UnitReading(shown, reading, reading.record(model), label)


def read_one_text(task: Any, text: str, asked: str) -> tuple[Reading, list[str]]:
    """A text as a language model reads it, and the text of each token of the vocabulary."""
    reader = find(task, ReadsText, asked)
    return read_texts(reader.tokenizer, [text]), reader.token_names


def _read(task: ReadsText, text: Any, asked: Sequence[Any]) -> Texts:
    """`text`: a path or a list of texts; otherwise the held-out part. `asked`: names of labels, FILE.py:FUNCTION,
    FILE.tsv:COLUMN, or functions from a text to values by name."""
    own = {getattr(each, "__name__", "label"): each for each in asked if callable(each)}
    named = [each for each in asked if not callable(each)]
    tables = [each for each in named if is_column(each)]
    for each in named:
        looks_like_a_file = ":" in each or each.endswith((".py", ".csv", ".tsv"))
        if looks_like_a_file and not is_column(each) and ".py:" not in each:
            raise OptionError(
                f"label {each}: a label of your own is FILE.py:FUNCTION, or a table FILE.tsv:COLUMN or FILE.csv:COLUMN."
            )
    if tables and text is None:
        raise OptionError(f"label {tables[0]}: the rows of a table are for a text that you name. Add --text FILE.")
    if isinstance(text, list | tuple):
        documents = [Document(str(k), each) for k, each in enumerate(text)]
    else:
        documents = task.held_out if text is None else read_documents(text)
    texts = [document.text for document in documents]
    usual = usual_labels([document.name for document in documents])
    own |= {each.rpartition(":")[2]: read_labeller(each) for each in named if ".py:" in each}
    columns = {column_name(each): read_column(each, texts) for each in tables}

    def labeller(text: str) -> dict[str, Any]:
        return {name: values for each in (usual, *own.values()) for name, values in each(text).items()}

    names = [column_name(each) if is_column(each) else each.rpartition(":")[2] for each in named]
    return texts, labeller, columns, [*names, *(name for name in own if name not in names)]
