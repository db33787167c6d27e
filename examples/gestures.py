"""Gestures: circles, eights and zigzags, drawn at different speeds by a shaking hand, told apart by a network.

Run it:  python examples/gestures.py
"""

import math
import tempfile
from pathlib import Path

import numpy as np

import recurra as rc

SHAPES = {
    "circle": lambda a: (math.cos(a), math.sin(a)),
    "eight": lambda a: (math.sin(a), math.sin(2 * a)),
    "zigzag": lambda a: (a / math.pi - 1, 2 * abs(2 * (a / 2 % 1) - 1) - 1),
}


def write_gestures(file: Path, count: int = 240, seed: int = 0) -> None:
    """A `.ts` file: two channels, x and y, with 12 to 40 steps; now and then a step is missing."""
    random = np.random.default_rng(seed)
    lines = ["@problemName gestures", f"@classLabel true {' '.join(SHAPES)}", "@data"]
    for k in range(count):
        name = list(SHAPES)[k % len(SHAPES)]
        steps = int(random.integers(12, 41))
        start = random.uniform(0, 2 * math.pi)
        points = np.array([SHAPES[name](start + 2 * math.pi * t / steps) for t in range(steps)])
        points += random.normal(scale=0.3, size=points.shape)
        points[random.random(points.shape) < 0.02] = np.nan
        channels = [",".join("?" if math.isnan(v) else f"{v:.3f}" for v in channel) for channel in points.T]
        lines.append(":".join([*channels, name]))
    file.write_text("\n".join(lines) + "\n")


def main(folder: Path, steps: int = 400) -> float:
    """The accuracy on gestures that were held out."""
    write_gestures(folder / "gestures.ts")
    run = rc.train("classify", folder / "gestures.ts", out=folder / "run", steps=steps)
    print(run.task.about_data)
    evaluation = run.evaluate()
    print(evaluation, evaluation.confusion, sep="\n\n")
    return evaluation.scores[run.task.called]["accuracy"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
