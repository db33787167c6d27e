from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recurra.cli.output import AsJson, print_json, print_table

if TYPE_CHECKING:
    from recurra.tasks.mimic import Point, Trained
    from recurra.tasks.task import Settings


def mimic(
    recipe: Annotated[str, typer.Argument(help="signal-and-noise, tag or events.")] = "signal-and-noise",
    settings: Annotated[list[str] | None, typer.Argument(help="Settings of the recipe, KEY=VALUE each.")] = None,
    tree: Annotated[str, typer.Option(help="Strengths of training.tree, with commas.")] = "0.03,0.05,0.065",
    l2: Annotated[str, typer.Option(help="Strengths of training.l2.")] = "1,2,2.25,2.5,3",
    l1: Annotated[str, typer.Option(help="Strengths of training.l1.")] = "0.003,0.01,0.02",
    seeds: Annotated[int, typer.Option(min=1, help="How many networks for each strength.")] = 3,
    workers: Annotated[int, typer.Option(min=1, help="How many networks are trained at a time.")] = 1,
    out: Annotated[Path, typer.Option(help="Where table and picture go.")] = Path("runs/mimic"),
    as_json: AsJson = False,
) -> None:
    """Tree regularization beside L1 and L2: the score over the path length of the tree that mimics the network."""
    from recurra.models.decision_tree import find_grower
    from recurra.plots.figure import find_matplotlib
    from recurra.tasks.catalogue import begin, find_recipe
    from recurra.tasks.mimic import score_name, sweep_penalties
    from recurra.tasks.settings import override

    find_matplotlib()
    find_grower()  # where one is missing, that is said before anything is trained
    strengths = {name: _numbers(f"--{name}", text) for name, text in (("tree", tree), ("l2", l2), ("l1", l1))}
    plan = override(find_recipe(recipe), list(settings or []))
    score = score_name(len(begin(plan).steps("valid").classes))
    runs = []
    for run in sweep_penalties(plan, strengths, range(seeds), workers):
        runs.append(run)
        typer.echo(
            f"{run.penalty} {run.strength:g}, seed {run.seed}: {score} {run.test.score:.4f}, "
            f"path length {run.test.path_length:.2f} after {run.seconds:.0f} s",
            err=True,
        )
    found, columns, rows = write_sweep(plan, runs, score, out)
    if as_json:
        print_json(found)
        return
    print_table(f"{plan.name}, test data, the mean of {seeds} seeds", columns, rows)
    if found["best_possible"] is not None:
        print(f"best possible (Bayes): {found['best_possible']:.4f}")
    print(f"picture and tables: {out}")


def write_sweep(
    plan: Settings, runs: Sequence[Trained], score: str, out: Path
) -> tuple[dict[str, Any], list[str], list[list[str]]]:
    """The picture, and all numbers as JSON and as a table; the numbers, and the table's columns and rows."""
    from recurra.analysis.penalties import PenaltyPoint, PenaltySweep
    from recurra.runs.disk import replace_file, to_json
    from recurra.tasks.mimic import average, best_possible, choose

    points = average(runs)
    chosen = choose(points)
    ceiling = best_possible(plan, sorted({run.seed for run in runs}))
    spots = [
        PenaltyPoint(
            point.penalty,
            point.strength,
            point.test["path_length"],
            point.spread["path_length"],
            point.test["score"],
            point.spread["score"],
            point in chosen.values(),
        )
        for point in points
    ]
    PenaltySweep(spots, score, ceiling).plot(out / "penalties")
    found = {
        "recipe": plan.name,
        "score": score,
        "best_possible": ceiling,
        "chosen": {name: point.strength for name, point in chosen.items()},
        "points": [asdict(point) for point in points],
        "runs": [asdict(run) for run in runs],
    }
    replace_file(out / "penalties.json", to_json(found, "penalties.json", pretty=True))
    columns = ["penalty", "strength", "chosen", score, *COLUMNS]
    rows = [_row(point, point in chosen.values()) for point in points]
    replace_file(out / "penalties.csv", "\n".join(",".join(row) for row in [columns, *rows]).encode() + b"\n")
    return found, columns, rows


COLUMNS = [
    "path length",
    "leaves",
    "fidelity",
    "accuracy",
    "tree accuracy",
    "pruned path",
    "pruned fidelity",
    "surrogate error",
]


def _row(point: Point, is_chosen: bool) -> list[str]:
    test, pruned, error = point.test, point.pruned, point.surrogate_error
    return [
        point.penalty,
        f"{point.strength:g}",
        "*" if is_chosen else "",
        f"{test['score']:.4f}",
        f"{test['path_length']:.2f}",
        f"{test['leaves']:.1f}",
        f"{test['fidelity']:.3f}",
        f"{test['accuracy']:.4f}",
        f"{test['tree_accuracy']:.4f}",
        f"{pruned['path_length']:.2f}",
        f"{pruned['fidelity']:.3f}",
        "" if error is None else f"{error:.2f}",
    ]


def _numbers(what: str, text: str) -> list[float]:
    """Positive numbers with commas; none where there is nothing."""
    from recurra.errors import OptionError

    try:
        found = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        found = [-1.0]
    if not all(0 < number < 1e6 for number in found):
        raise OptionError(f"{what} {text}: expected positive numbers with commas between them, such as 0.02,0.1.")
    return found
