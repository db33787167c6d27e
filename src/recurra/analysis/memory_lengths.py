"""Success over length: how long a cell can remember, task by task."""

from __future__ import annotations

from dataclasses import dataclass

from recurra.results import Result, Table


@dataclass(frozen=True)
class MemoryRow:
    """One cell at one length: the `score` of each seed, 0 (no better than without memory) to 1 (perfect)."""

    cell: str
    length: int
    scores: tuple[float, ...]

    @property
    def success(self) -> float:
        """The share of seeds that solved it: a score of at least 0.9."""
        return sum(score >= SOLVED for score in self.scores) / len(self.scores)


SOLVED = 0.9


@dataclass(frozen=True)
class MemoryComparison(Result):
    """Cells over lengths on one task, after `steps` updates each."""

    task: str
    steps: int
    rows: tuple[MemoryRow, ...]

    def table(self) -> Table:
        lengths = sorted({row.length for row in self.rows})
        found = {(row.cell, row.length): row for row in self.rows}
        cells = list(dict.fromkeys(row.cell for row in self.rows))
        rows = [(cell, *(_shown(found.get((cell, length))) for length in lengths)) for cell in cells]
        title = f"{self.task}: seeds that solve it (mean score), {self.steps} steps"
        return Table(("cell", *map(str, lengths)), rows, title)


def _shown(row: MemoryRow | None) -> str:
    if row is None:
        return ""
    solved = sum(score >= SOLVED for score in row.scores)
    return f"{solved}/{len(row.scores)} ({sum(row.scores) / len(row.scores):.2f})"
