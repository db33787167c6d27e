"""The load of a small town by the hour: five days of work and two of rest, some hours never measured. What will it be tomorrow?

Run it:  python examples/load.py
"""

import csv
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

import recurra as rc


def write_load(file: Path, hours: int = 2000, seed: int = 0) -> None:
    """A CSV file with the columns time and load; one hour in a hundred has no load."""
    lost = np.random.default_rng(seed).random(hours) < 0.01
    with file.open("w", newline="") as opened:
        table = csv.writer(opened)
        table.writerow(["time", "load"])
        for k, value in enumerate(rc.data.seasons(hours, seed)[:, 0].tolist()):
            when = datetime(2024, 1, 1) + timedelta(hours=k)
            table.writerow([when.isoformat(sep=" "), "" if lost[k] else f"{value:.3f}"])


def main(folder: Path, steps: int = 300) -> dict[str, dict[str, float]]:
    """The scores of a backtest, by model."""
    write_load(folder / "load.csv")
    run = rc.train("forecast", folder / "load.csv", out=folder / "run", steps=steps)
    print(run.task.about_data)
    evaluation = run.evaluate()
    print(evaluation, run.forecast(6), sep="\n\n")
    return evaluation.scores


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
