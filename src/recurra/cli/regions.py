from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, open_run, print_json, print_result


def regions(
    run: Annotated[
        Path | None, typer.Argument(help="A run folder of the recipe feedforward, with relu layers.")
    ] = None,
    points: Annotated[
        str | None,
        typer.Option(help='Build the network that is a polygonal line instead: its points, as in "0,0 1,2 3,1".'),
    ] = None,
    line: Annotated[
        str | None, typer.Option(help='Count on the line through two points of the inputs, as in "0,0 1,1".')
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the regions: FILE.svg and .png, on light and dark.")] = None,
    as_json: AsJson = False,
) -> None:
    """How many linear pieces a rectifier network has, counted exactly, with the bounds beside; or a polygonal line as network."""
    from recurra.errors import OptionError
    from recurra.lecture.region_count import polygonal_line
    from recurra.plots.figure import name_files

    if (run is None) == (points is None):
        raise OptionError("give a run folder, or --points for a polygonal line: one of the two.")
    if points is not None:
        if line is not None or plot is not None:
            raise OptionError("--line and --plot are for a run folder.")
        print_result(polygonal_line([(x, y) for x, y in _read_points("--points", points, 2)]), as_json)
        return
    assert run is not None
    if line is not None and plot is not None:
        raise OptionError("--plot draws a plane; leave --line out.")
    opened = open_run(run)
    ends = None
    if line is not None:
        ends = _read_points("--line", line, opened.input_count)
        if len(ends) != 2:
            raise OptionError(f"--line needs two points; got {len(ends)}.")
    found = opened.regions(ends)
    pictures: list[str] = []
    if plot is not None:
        file = plot.with_suffix("") if plot.suffix in (".svg", ".png") else plot
        found.plot(file)
        pictures = [str(each) for each in name_files(file)]
    if as_json:
        print_json({"run": str(run)} | found.to_json() | ({"pictures": pictures} if pictures else {}))
        return
    print_result(found, as_json)
    for each in pictures:
        print(each)


def _read_points(what: str, text: str, size: int) -> list[tuple[float, ...]]:
    """Points of `size` numbers each: commas inside a point, spaces between them."""
    from recurra.errors import OptionError

    points = []
    for word in text.split():
        try:
            point = tuple(float(part) for part in word.split(","))
        except ValueError:
            point = ()
        if len(point) != size or not all(abs(part) < 1e100 for part in point):
            raise OptionError(
                f"{what}: {word!r} is no point of {size} numbers. Write them as 0,0 with spaces between points."
            )
        points.append(point)
    return points
