"""Pictures that move: the frames of a result as one GIF."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from recurra.errors import OptionError
from recurra.plots.figure import draw, find_matplotlib
from recurra.results import Film
from recurra.runs.disk import reason, replace_file

DOTS = 72
"""For an inch of a frame: a film has many frames."""


def animate(result: Film, file: str | Path, *, seconds: float = 0.6) -> Path:
    """Write an animated GIF of all frames; the last one stays longer."""
    file = Path(file)
    if file.suffix.lower() != ".gif":
        raise OptionError(f"{file}: an animation is a .gif; got {file.suffix or 'no ending'}.")
    if not 0.02 <= seconds <= 60:
        raise OptionError(f"seconds for a frame must be 0.02 to 60; got {seconds}.")
    find_matplotlib()
    from PIL import Image  # comes with matplotlib

    frames = [
        Image.open(io.BytesIO(_frame(draw(result, frame=k), result.frame_size))).convert("RGB")
        for k in range(result.frames)
    ]
    # few colours, rare ones among them: the dots are small
    frames = [each.resize(frames[0].size).quantize(24, method=Image.Quantize.MAXCOVERAGE) for each in frames]
    times = [round(1000 * seconds)] * (len(frames) - 1) + [round(3000 * seconds)]
    data = io.BytesIO()
    frames[0].save(data, "GIF", save_all=True, append_images=frames[1:], duration=times, loop=0)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, data.getvalue())
    except OSError as error:
        raise OptionError(f"{file} cannot be written ({reason(error)}). Choose another place.") from error
    return file


def _frame(figure: Any, size: tuple[float, float]) -> bytes:
    data = io.BytesIO()
    figure.set_size_inches(*size)
    figure.savefig(data, format="png", dpi=DOTS)
    return data.getvalue()
