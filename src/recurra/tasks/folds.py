"""Cross-validation: as many runs as folds, each tested on the one that it does not learn from."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recurra.errors import OptionError
from recurra.results import Result, Table, to_plain
from recurra.runs.creation import RECIPE
from recurra.tasks.recipe import Recipe
from recurra.tasks.results import Evaluation
from recurra.tasks.run import Run, new_folder

RUN, ALONE = "the run", "the network alone"


@dataclass(frozen=True)
class Folds(Result):
    """Scores of the runs of a cross-validation, each on its own fold.

    - `folder`: where they are; run k is in `folder/fold-k`. `counts`: how many predictions each fold's scores are the mean of.
    - `scores[k]`: rows of named numbers. `the run` is what it predicts with; then the network alone, and baselines.
    """

    folder: Path
    counts: tuple[int, ...]
    scores: tuple[dict[str, dict[str, float]], ...]

    def mean(self, row: str = RUN, metric: str = "accuracy") -> float:
        """The mean over folds."""
        return statistics.fmean(self._values(row, metric))

    def spread(self, row: str = RUN, metric: str = "accuracy") -> float:
        """The standard deviation over folds."""
        return statistics.stdev(self._values(row, metric))

    def _values(self, row: str, metric: str) -> list[float]:
        return [each[row][metric] for each in self.scores]

    def _metrics(self, row: str) -> list[str]:
        return list(self.scores[0][row])

    def table(self) -> Table:
        metrics = self._metrics(RUN)
        rows = [
            [row]
            + [
                f"{self.mean(row, each):.4f} ± {self.spread(row, each):.4f}" if each in self._metrics(row) else ""
                for each in metrics
            ]
            for row in self.scores[0]
        ]
        title = (
            f"{len(self.scores)} folds in {self.folder}, {sum(self.counts):,} predictions: mean ± deviation over folds"
        )
        return Table(["model", *metrics], rows, title)

    def to_json(self) -> dict[str, Any]:
        rows = {
            row: {each: {"mean": self.mean(row, each), "spread": self.spread(row, each)} for each in self._metrics(row)}
            for row in self.scores[0]
        }
        return {"folder": str(self.folder), "rows": rows, "folds": to_plain(list(self.scores)), "tokens": self.counts}


def train_folds(
    recipe: Recipe,
    folds: int,
    changes: Mapping[str, Any] | list[str],
    data: Any,
    out: str | os.PathLike[str] | None,
    train_one: Callable[..., Run],
) -> Folds:
    """Train a run for each fold under one folder, or go on with those that are there, and evaluate each on its fold.

    `train_one`: a task (or `None`), a run to go on with (or `None`) and the folder, to the run.
    """
    if not hasattr(recipe.settings.data, "folds"):
        raise OptionError(f"folds is for recipes that label sequences: classify, tag. {recipe.name} is none of them.")
    if not isinstance(folds, int) or folds < 2:
        raise OptionError(f"folds must be a whole number of at least 2; got {folds!r}.")
    folder = new_folder(f"{recipe.name}-folds", out)
    counts, scores = [], []
    for k in range(1, folds + 1):
        path, own = folder / f"fold-{k}", {"data.folds": folds, "data.fold": k}
        if (path / RECIPE).exists():
            found = train_one(None, path)
            kept = found.settings.data
            if (kept.folds, kept.fold) != (folds, k):
                raise OptionError(
                    f"{path} is of {kept.folds} folds, and {folds} were asked for. Choose another folder."
                )
        else:
            chosen = (
                {**changes, **own}
                if isinstance(changes, Mapping)
                else [*changes, *(f"{a}={b}" for a, b in own.items())]
            )
            found = train_one(recipe.configure(chosen, data), path)
        evaluated = found.evaluate()
        counts.append(evaluated.count)
        scores.append(scores_by_role(evaluated, found.task.called))
    return Folds(folder, tuple(counts), tuple(scores))


def scores_by_role(found: Evaluation, network: str) -> dict[str, dict[str, float]]:
    """The rows of an evaluation under names that are the same in every fold; `network`: what the network alone is called, where
    it has a row."""
    first = next(iter(found.scores.values()))
    rows = {RUN: first} | ({ALONE: found.scores[network]} if network in found.scores else {})
    for name, row in found.scores.items():
        if name != network and row is not first:
            rows["the most frequent class" if name.startswith("always ") else name] = row
    return rows
