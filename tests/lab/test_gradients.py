"""The view of gradients, in a real browser."""

import re
from typing import Any

import httpx

from .browser import Visit
from .waiting import chooser, wait_for


def test_sliders_change_the_gradient(look: Visit) -> None:
    page = look.open("#/gradients?steps=20")
    verdict = page.locator("main .verdict").first
    wait_for(lambda: "20 steps" in verdict.inner_text())
    page.get_by_role("slider", name="spectral radius of U").fill("0.3")
    page.get_by_text(re.compile("vanishes with a half-life")).wait_for()
    first = verdict.inner_text()
    page.get_by_role("slider", name="length").fill("30")
    wait_for(lambda: "30 steps" in verdict.inner_text())
    chooser(page, "Cell").select_option("carousel")
    page.get_by_text(re.compile("holds to 30 steps")).wait_for()
    assert verdict.inner_text() != first

    page.get_by_role("slider", name="t, the step of the loss").fill("30")
    page.get_by_role("slider", name="k, steps back").fill("12")
    page.get_by_text("‖∂h(30)/∂h(18)‖").wait_for()
    chooser(page, "Truncation").select_option("window")
    page.get_by_role("slider", name="K of the truncation").fill("5")
    page.get_by_text("this truncation drops it").wait_for()
    page.get_by_text(re.compile(r"window:5 keeps \d+ % of the pairs of 30 steps")).wait_for()
    page.locator("canvas.pairs").click(position={"x": 12, "y": 8})
    assert "‖∂h(30)/∂h(30)‖" in page.locator(".pair").inner_text()
    page.get_by_role("slider", name="weight v").fill("-1.5")
    chooser(page, "Activation").select_option("linear")
    look.check_all_looks()
    assert "truncation=window%3A5" in page.url


def test_a_run_has_gradients_of_its_own(watched_lab: Any) -> None:
    """Answers are those of the lines of Python beside them."""
    with httpx.Client(base_url=watched_lab.base, timeout=30) as client:
        for body in ({"run": "tomita", "steps": 12}, {"cell": "gru", "steps": 10, "units": 3, "truncation": "every:4"}):
            found = client.post("api/gradients/map", json=body).json()
            scope: dict[str, Any] = {}
            exec(found["python"], scope)
            logs = scope["found"].logs / 2.302585092994046
            assert abs(float(logs[-1, 5]) - found["logs"][-1][5]) < 1e-6
        assert client.post("api/gradients/map", json={"cell": "x.py:y"}).status_code == 400
        assert client.post("api/gradients/map", json={"steps": 10**9}).status_code == 422
