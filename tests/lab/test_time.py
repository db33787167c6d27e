"""Through time: the heat map, one unit, one step, the cell at work."""

import re
from pathlib import Path
from typing import Any

import recurra as rc

from .browser import Visit

TEXT = "the cat sat on the mat. (the dog) sat."


def open_text(visit: Visit, more: str = "", run: str = "text") -> Any:
    from urllib.parse import quote

    page = visit.open(f"#/time?run={run}&text={quote(TEXT)}{more}")
    page.locator(".tokens span").first.wait_for()
    return page


def test_a_text_is_typed_and_a_unit_looked_at(visit: Visit, runs: Path) -> None:
    page = visit.open("#/time?run=text")
    page.get_by_label("A text of your own").fill(TEXT)
    page.get_by_role("button", name="Read").click()
    page.wait_for_function("n => document.querySelectorAll('.tokens span').length === n", arg=len(TEXT) - 1)
    page.get_by_label("State or gate").select_option("0.z")
    page.wait_for_url(re.compile(r"series=0\.z"))
    page.get_by_text("0.z.0 at step").wait_for()

    heat = page.get_by_role("application")
    heat.scroll_into_view_if_needed()
    box = heat.bounding_box()
    page.mouse.click(box["x"] + 44 + 14 * 10 + 7, box["y"] + 22 + 14 * 3 + 7)  # the fourth unit, the eleventh step
    page.get_by_role("heading", name="Unit 0.z.3").wait_for()
    found = rc.open(runs / "text").through_time(TEXT)
    shown = page.locator(".one-line").inner_text()
    assert float(shown.rpartition(" ")[2]) == float(f"{float(found.of('0.z')[10, 3]):.4g}")
    lost = rc.open(runs / "text").ablate("0.z.3", TEXT)
    told = re.search(r"([-+][\d.e-]+) nats", page.locator("main").inner_text())
    assert told
    assert abs(float(told[1]) - lost.rise) <= 0.01 * abs(lost.rise)
    assert page.locator(".contexts.high li").count() >= 2

    page.get_by_role("button", name="What does it follow?").click()
    page.get_by_role("region", name="Correlation on held-out text").wait_for(timeout=30_000)
    visit.check_all_looks()


def test_steps_go_forward_and_back_with_the_keys(visit: Visit, runs: Path) -> None:
    page = open_text(visit, "&t=4&unit=0.h.2")
    page.get_by_role("heading", name="Step 4: what comes next").wait_for()
    step = rc.open(runs / "text").through_time(TEXT).steps[4]
    assert (
        f"{100 * step.probability:.1f} %"
        in page.locator(".card", has=page.get_by_role("heading", name="Step 4")).inner_text()
    )
    page.get_by_role("heading", name="unit 2, step 4").wait_for()
    page.locator("body").press("ArrowRight")
    page.locator("body").press("ArrowDown")
    page.get_by_role("heading", name="unit 3, step 5").wait_for()
    page.wait_for_url(re.compile(r"t=5.*unit=0\.h\.3|unit=0\.h\.3.*t=5"))
    row = rc.open(runs / "text").table(TEXT).rows[5]
    page.wait_for_function(
        "n => [...document.querySelectorAll('.cell-picture .next .live')].some(e => Number(e.textContent) === n)",
        arg=float(f"{float(row.next_state['h'][3]):.3g}"),
    )
    page.locator("body").press("ArrowLeft")
    page.get_by_role("heading", name="unit 3, step 4").wait_for()
    page.locator(".tokens span").nth(9).click()
    page.get_by_role("heading", name="Step 9: what comes next").wait_for()


def test_two_runs_side_by_side_follow_each_other(visit: Visit) -> None:
    page = open_text(visit, "&run=text-lstm&t=3")
    page.get_by_role("heading", name="Step 3: what comes next").nth(1).wait_for()
    panels = page.locator("section.panel")
    assert panels.count() == 2
    panels.first.locator(".tokens span").nth(7).click()
    page.get_by_role("heading", name="Step 7: what comes next").nth(1).wait_for()
    visit.check_width(1400)
    page.get_by_label("Compare with").select_option("")
    page.wait_for_function("() => document.querySelectorAll('section.panel').length === 1")


def test_a_network_without_text_is_shown_over_typical_input(visit: Visit) -> None:
    page = visit.open("#/time?run=machine")
    page.get_by_text("0.h.0 at step 8").wait_for()
    page.get_by_role("application").focus()
    page.keyboard.press("ArrowDown")
    page.get_by_text("0.h.1 at step 8").wait_for()
    with page.expect_download() as saved:
        page.get_by_role("button", name="CSV").click()
    lines = Path(saved.value.path()).read_text().splitlines()
    assert len(lines) == 201
    assert lines[0].startswith("step,0.h.0,0.h.1")
    with page.expect_download() as saved:
        page.get_by_role("button", name="SVG").click()
    assert "<svg" in Path(saved.value.path()).read_text()


def test_what_a_run_cannot_is_one_line(visit: Visit) -> None:
    visit.is_refused = True
    page = visit.open("#/time?run=dates")
    page.get_by_role("alert").get_by_text("recurrent layers").wait_for()
