"""The state space in a real browser: states dropped, checkpoints scrubbed, buttons pressed, the robot at work."""

import re
import statistics
import time
from threading import Thread
from typing import Any

import httpx

from .browser import Visit
from .waiting import PLANE, chooser, wait_for_change


def test_states_are_dropped_and_checkpoints_scrubbed(look: Visit) -> None:
    page = look.open("#/space?run=machine")
    page.get_by_text(re.compile(r"fixed point\(s\)")).first.wait_for(timeout=30_000)
    box = page.locator("canvas.plane").bounding_box()
    page.locator("canvas.plane").click(position={"x": box["width"] / 3, "y": box["height"] / 3})
    page.get_by_text("Dropped:").wait_for()
    scrub = page.get_by_role("slider", name="Checkpoint")
    before = page.evaluate(PLANE)
    scrub.fill("0")
    page.get_by_text("untrained", exact=True).wait_for()
    wait_for_change(page, before)
    scrub.fill("2")
    page.get_by_text("step 10", exact=True).wait_for()
    assert "at=10" in page.url
    page.get_by_label("Axes: units").fill("1, 4")
    page.get_by_label("Axes: units").blur()
    page.wait_for_timeout(300)
    assert "units=1%2C4" in page.url
    page.get_by_role("button", name="Three dimensions").click()
    page.locator("canvas.plane").focus()
    page.keyboard.press("ArrowLeft")
    look.check_all_looks()


def test_buttons_are_pressed_and_the_robot_works(look: Visit) -> None:
    page = look.open("#/space?run=machine")
    said = page.locator(".machine-said")
    page.get_by_text(re.compile("The machine is Off")).wait_for()
    page.get_by_role("button", name="Power").click()
    page.get_by_text(re.compile("The machine is Idle")).wait_for()
    page.get_by_role("button", name="Program 3").click()
    page.get_by_text(re.compile("The machine is Programmed")).wait_for()
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_text(re.compile("The machine is Soak")).wait_for()
    assert re.search(r"Wrong so far: \d of 4", said.inner_text())
    on = page.locator(".lamp.on dt").all_inner_texts()
    assert on == ["Power", "Program", "Program Start", "Timer Trigger", "Water Pump", "Water Level"]
    chooser(page, "Program").select_option("2")
    page.get_by_role("button", name="Let it work").click()
    page.get_by_text(re.compile(r"of 1 washes finished in \d+ moments; \d+ mistakes")).wait_for()


def test_the_automaton_and_the_plane_light_up_together(look: Visit) -> None:
    page = look.open("#/space?run=tomita&input=1")
    page.get_by_text(re.compile(r"fixed point\(s\)")).first.wait_for()
    page.get_by_role("button", name="Extract the automaton").click()
    state = page.get_by_role("button", name=re.compile("State ")).first
    state.wait_for(timeout=30_000)
    dark = page.evaluate(PLANE)
    state.hover()
    wait_for_change(page, dark)
    assert "lit" in state.get_attribute("class")
    look.check_all_looks()


def test_answers_and_their_lines_of_python(watched_lab: Any) -> None:
    with httpx.Client(base_url=watched_lab.base, timeout=60) as client:
        asked = {"run": "machine", "input": "Power", "step": 10}
        field = client.post("api/space/field", json=asked).json()
        scope: dict[str, Any] = {}
        exec(field["python"], scope)
        assert scope["space"].field("Power").moves[7].tolist() == field["moves"][7]
        points = client.post("api/space/points", json=asked).json()["points"]
        assert len(points) == len(scope["space"].fixed_points("Power").points)
        assert client.post("api/space/field", json=asked | {"step": 3}).status_code == 400
        assert client.post("api/space/field", json=asked | {"units": [0, 99_999]}).status_code == 400
        assert client.post("api/space/press", json={"run": "tomita", "triggers": []}).status_code == 400
        assert client.post("api/space/press", json={"run": "machine", "triggers": ["Explode"]}).status_code == 400
        robot = client.post("api/space/robot", json={"run": "machine", "programs": [1]}).json()
        assert robot["mistakes"] == sum(bool(each["mistake"]) for each in robot["moments"])


def test_a_field_is_there_within_300_milliseconds(watched_lab: Any) -> None:
    """After a click: another input, whose field is not cached, and a state that is dropped."""
    with httpx.Client(base_url=watched_lab.base, timeout=60) as client:
        client.post("api/space/field", json={"run": "machine", "input": "none"})
        seconds, searched = [], {"run": "machine", "input": "Program 6"}
        search = Thread(target=lambda: httpx.post(f"{watched_lab.base}api/space/points", json=searched, timeout=60))
        search.start()  # which a click does not wait for
        for name in ("Power", "Start", "Level", "Timer", "Program 1"):
            began = time.perf_counter()
            client.post("api/space/field", json={"run": "machine", "input": name})
            client.post("api/space/drop", json={"run": "machine", "input": name, "place": [0.1, 0.2]})
            seconds.append(time.perf_counter() - began)
        search.join()
        print(f"field and drop: median {1000 * statistics.median(seconds):.0f} ms")
        assert statistics.median(seconds) < 0.3
