"""How well the model does on data that it never saw, beside baselines."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, replace

from recurra.report.page import Figure, Section, table
from recurra.report.subject import Subject
from recurra.report.values import write_values
from recurra.runs.folder import RunFolder
from recurra.tasks.task import Evaluation, Question

NAMED = 20
"""Confusions of more classes than this are left out."""


def scores_section(subject: Subject) -> Section | None:
    if not subject.is_trained:
        return None
    answer = kept_answer(subject.folder)
    if answer is None:
        answer = subject.task.evaluate(subject.model, Question())
        keep_answer(subject.folder, answer)
    columns = list(dict.fromkeys(column for row in answer.scores.values() for column in row))
    rows = [
        [name, *(f"{row[column]:.4f}" if column in row else "—" for column in columns)]
        for name, row in answer.scores.items()
    ]
    command = subject.command("evaluate RUN")
    figures = [
        Figure(
            table(["model", *columns], rows),
            f"Scores on {answer.data} data: {answer.steps:,} {subject.task.units} that were not trained on.",
            "One run with one seed; another seed gives another last digit or two. Data that differs from this may be harder.",
            command,
        )
    ]
    if answer.confusion is not None and 1 < len(answer.confusion[0]) <= NAMED:
        names, counts = answer.confusion
        figures.append(
            Figure(
                table(
                    ["true \\ said", *names], [[name, *map(str, row)] for name, row in zip(names, counts, strict=True)]
                ),
                "How often each class (row) was taken for each (column).",
                "Rare classes have few examples here: a single mistake weighs much.",
                command,
            )
        )
    return Section("Scores", figures)


def keep_answer(folder: RunFolder, answer: Evaluation) -> None:
    """Keep the scores of the weights as they are now, so that a report need not compute them again."""
    with suppress(OSError):  # a folder that is only read has no place to keep them
        kept = asdict(replace(answer, outlook=None))  # a forecast is made anew: it is a picture, not a score
        write_values(folder, "scores.json", {"weights": _weights(folder), **kept})


def kept_answer(folder: RunFolder) -> Evaluation | None:
    """The scores that were kept, if they are those of the weights as they are now."""
    try:
        kept = json.loads((folder.explain / "scores.json").read_bytes())
        if kept.pop("weights") != _weights(folder):
            return None
        confusion = kept.pop("confusion")
        return Evaluation(**kept, confusion=None if confusion is None else (confusion[0], confusion[1]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _weights(folder: RunFolder) -> str:
    """A digest of the weights that a run is judged by."""
    which = "best" if folder.has("best") else "last"
    data = (folder.path / "checkpoints" / which / "weights.safetensors").read_bytes()
    return hashlib.blake2b(data, digest_size=16).hexdigest()
