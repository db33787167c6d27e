"""The parts of a report on their own, thoroughly: results are computed by the run and kept in RUN/explain/."""

from __future__ import annotations

from collections.abc import Sequence

from recurra.analysis.fixed_points import FixedPoints
from recurra.analysis.gradients import GradientFlow
from recurra.analysis.trace_table import TraceTable
from recurra.lecture.scalar_page import scalar_page
from recurra.plots.figure import ENDINGS
from recurra.results import Result
from recurra.tasks.capabilities import HasTriggers, offers
from recurra.tasks.dynamics import FAR
from recurra.tasks.run import Run


def keep_gradients(
    run: Run, steps: int | None = None, starts: int = 4, endings: Sequence[str] = ENDINGS
) -> GradientFlow:
    """Gradients over time, the eigenvalues behind them, and the scalar case to play with."""
    flow, spectra = run.gradients(steps or FAR, starts), run.spectra()
    run.save(flow, "gradients", endings=endings)
    if spectra.matrices:
        spectra.plot(run.folder.explain / "eigenvalues", endings=endings)
    run.write("scalar.html", scalar_page())
    return flow


def keep_fixed_points(run: Run, input: str | None, starts: int | None = None, period: int = 1) -> FixedPoints:
    """Fixed points under a frozen input."""
    found = run.fixed_points(input, starts=starts or 1024, period=period)
    run.save(found, "fixed_points")
    return found


def keep_field(
    run: Run, input: str | None, starts: int | None = None, period: int = 1, endings: Sequence[str] = ENDINGS
) -> dict[str, Result]:
    """Field, fixed points and basins under a frozen input; of a state machine, its attractors and transitions too."""
    found: dict[str, Result] = {}
    if offers(run.task, HasTriggers):
        machine = run.attractors()
        if machine is not None:
            run.save(machine, "automaton", endings=endings)
            found["automaton"] = machine
    portrait = run.field(input, starts=starts or 1024, period=period)
    run.save(portrait, "field", endings=endings)
    if "png" in endings:  # thoroughly, not for a report
        for form in ("contours", "surface"):
            portrait.plot(run.folder.explain / f"field-{form}", form=form)
    run.save(portrait.points, "fixed_points", picture=False)
    run.write("fixed_points.json", portrait.to_json())
    if portrait.basins is not None:
        run.save(portrait.basins, "basins", picture=False)
        portrait.plot_basins(run.folder.explain / "basins", endings=endings)
    return found | {"fixed_points": portrait}


def keep_views(run: Run, input: str | None, triggers: bool, formation: bool, walk: Sequence[str]) -> dict[str, Result]:
    """Fields in other ways: under every trigger, through training (with a film), and with a state that moves (with a film)."""
    found: dict[str, Result] = {}
    if triggers:
        found["triggers"] = run.fields()
        found["parts"] = run.split_field(input)
    if formation:
        found["formation"] = formed = run.formation(input)
        formed.animate(run.folder.explain / "formation.gif")
    if walk:
        found["walk"] = walked = run.walk(walk)
        walked.animate(run.folder.explain / "walk.gif")
    for name, result in found.items():
        run.save(result, name)
    return found


def keep_table(run: Run, text: str) -> TraceTable:
    """The cell at work on a text, as CSV and as a page."""
    made = run.table(text)
    run.write("table.csv", made.to_csv())
    run.write("table.html", made.to_html(text))
    return made
