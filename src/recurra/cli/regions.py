from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recurra.cli.output import AsJson, print_json, print_table

if TYPE_CHECKING:
    from recurra.lecture.regions import PlaneRegions, Rectifier
    from recurra.tasks.feedforward import FeedforwardTask


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

    if (run is None) == (points is None):
        raise OptionError("give a run folder, or --points for a polygonal line: one of the two.")
    if points is not None:
        if line is not None or plot is not None:
            raise OptionError("--line and --plot are for a run folder.")
        found = _polygon(points, not as_json)
    else:
        assert run is not None
        found = _counted(run, line, plot, not as_json)
    if as_json:
        print_json(found)


def _polygon(text: str, show: bool) -> dict[str, Any]:
    from recurra.lecture.regions import most_regions, polygonal_network, regions_on_line

    points = _read_points("--points", text, 2)
    network = polygonal_network([(x, y) for x, y in points])
    (W, b), (V, c) = network.hidden[0], network.output
    counted = regions_on_line(network)
    units = [
        {"weight": float(w), "bias": float(bias), "output": float(v)}
        for w, bias, v in zip(W[:, 0], b, V[0], strict=True)
    ]
    bound = most_regions(len(units), 1)
    if show:
        rows = [[str(k), *(f"{value:.17g}" for value in unit.values())] for k, unit in enumerate(units, start=1)]
        print_table("", ["unit", "weight", "bias", "output weight"], rows)
        print(f"y = {c[0]:.17g} + Σ output weight · max(0, weight · x + bias)")
        print(f"{counted.pieces} linear pieces; {len(units)} units can make {bound} at most")
    return {
        "units": units,
        "bias": float(c[0]),
        "pieces": counted.pieces,
        "bounds": {"zaslavsky": bound},
    }


def _counted(run: Path, line: str | None, plot: Path | None, show: bool) -> dict[str, Any]:
    import numpy as np

    from recurra.errors import OptionError
    from recurra.lecture.regions import lower_bound, rectifier_of, regions_on_line, regions_on_plane, upper_bound
    from recurra.tasks.catalogue import open_run
    from recurra.tasks.feedforward import FeedforwardTask, window_of

    _, task, model = open_run(run)
    if not isinstance(task, FeedforwardTask):
        raise OptionError(f"{run} is of the recipe {task.settings.name}; regions are counted for feedforward.")
    network = rectifier_of(model)
    found: dict[str, Any] = {"run": str(run), "inputs": network.inputs, "widths": list(network.widths)}
    if line is not None:
        if plot is not None:
            raise OptionError("--plot draws a plane; leave --line out.")
        ends = _read_points("--line", line, network.inputs)
        if len(ends) != 2:
            raise OptionError(f"--line needs two points; got {len(ends)}.")
        first, second = np.array(ends)
        along = network.along(first, second - first)
        whole, between = regions_on_line(along), regions_on_line(along, 0.0, 1.0)
        found |= {"line": {"regions": len(whole), "pieces": whole.pieces, "between_points": len(between)}}
        rows = [["the whole line", f"{len(whole):,}"], ["between the two points", f"{len(between):,}"]]
        dimensions = 1
    else:
        if network.inputs != 2:
            raise OptionError(f"a plane has two inputs, and this run has {network.inputs}. Count on a line: --line.")
        low, high = window_of(task)
        inside = regions_on_plane(network, low, high)
        everywhere = regions_on_plane(network)
        found |= {"plane": {"regions": len(everywhere), "window": {"low": low, "high": high, "regions": len(inside)}}}
        rows = [["the whole plane", f"{len(everywhere):,}"], ["around the training data", f"{len(inside):,}"]]
        dimensions = 2
        if plot is not None:
            found["pictures"] = _draw(inside, network, task, plot)
    bounds = {"upper": upper_bound(dimensions, network.widths), "lower": lower_bound(dimensions, network.widths)}
    found["bounds"] = bounds
    if show:
        rows.append(["no network of this shape has more than", f"{bounds['upper']:,}"])
        if bounds["lower"] is not None:
            rows.append(["the best network of this shape has at least", f"{bounds['lower']:,}"])
        shape = " + ".join(str(width) for width in network.widths) or "no"
        print_table(f"{network.inputs} inputs, {shape} rectifiers", ["linear regions", ""], rows)
        for file in found.get("pictures", []):
            print(file)
    return found


def _draw(inside: PlaneRegions, network: Rectifier, task: FeedforwardTask, plot: Path) -> list[str]:
    from recurra.errors import DataError
    from recurra.plots.figure import name_files

    file = plot.with_suffix("") if plot.suffix in (".svg", ".png") else plot
    known = task.vocabulary
    options: dict[str, Any] = {"classes": known["classes"], "columns": known["columns"]}
    try:  # the examples of a file that is gone are left out
        some = task.parts.valid.take(range(min(300, len(task.parts.valid))))
        options |= {"points": some.x, "labels": some.labels}
    except DataError:
        pass
    inside.plot(file, network=network, **options)
    return [str(each) for each in name_files(file)]


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
