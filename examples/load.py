"""The load of a small town by the hour: five days of work and two of rest, some hours never measured. What will it be tomorrow?

Run it:  python examples/load.py
"""

import csv
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from recurra.data.series_tasks import seasons
from recurra.tasks.catalogue import begin, find_recipe
from recurra.tasks.settings import override
from recurra.tasks.task import Question


def write_load(file: Path, hours: int = 2000, seed: int = 0) -> None:
    """A CSV file with the columns time and load; one hour in a hundred has no load."""
    lost = np.random.default_rng(seed).random(hours) < 0.01
    with file.open("w", newline="") as opened:
        table = csv.writer(opened)
        table.writerow(["time", "load"])
        for k, value in enumerate(seasons(hours, seed)[:, 0].tolist()):
            when = datetime(2024, 1, 1) + timedelta(hours=k)
            table.writerow([when.isoformat(sep=" "), "" if lost[k] else f"{value:.3f}"])


def main(folder: Path, steps: int = 300) -> dict[str, dict[str, float]]:
    """The scores of a backtest, by model."""
    write_load(folder / "load.csv")
    recipe = override(find_recipe("forecast"), [f"data.path={folder / 'load.csv'}", f"training.steps={steps}"])
    task = begin(recipe)
    print(task.about_data)
    trainer = task.trainer()
    for event in trainer.events():
        if hasattr(event, "valid"):
            print(f"step {event.step}: {event.valid:.4f} nats on validation data")
    answer = task.evaluate(trainer.evaluated, Question())
    print(answer.data)
    for name, scores in answer.scores.items():
        print(f"  {name:28}", {key: round(value, 3) for key, value in scores.items()})
    seen = task.forecast(trainer.evaluated, 6)
    for row in zip(
        seen.times, seen.low[:, 0].tolist(), seen.said[:, 0].tolist(), seen.high[:, 0].tolist(), strict=True
    ):
        print("  {}   {:.2f} … {:.2f} … {:.2f}".format(*row))
    return answer.scores


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
