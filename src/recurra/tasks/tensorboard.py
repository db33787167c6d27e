"""The metrics of a run for TensorBoard as well (an extra); `metrics.jsonl` remains the record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recurra.errors import OptionError


def find_writer() -> Any:
    """TensorBoard's own writer, if it is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise OptionError(
            "--tensorboard needs the package tensorboard. Install it with pip install 'recurra[log]'."
        ) from None
    return SummaryWriter


class Board:
    """Writes rows of numbers, each with its step, into a folder that TensorBoard reads."""

    def __init__(self, folder: Path):
        self._writer = find_writer()(str(folder))

    def add(self, row: dict[str, Any]) -> None:
        for name, value in row.items():
            if name != "step" and isinstance(value, (int, float)):
                self._writer.add_scalar(name, value, row["step"])

    def close(self) -> None:
        self._writer.close()
