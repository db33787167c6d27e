"""The bench: equations typed, mended and trained in a real browser; and nothing that is typed is ever executed."""

import json
import re
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

import recurra as rc

from .browser import Visit
from .waiting import PLANE, chooser, wait_for, wait_for_change

WRONG = """def mine(x, U, h, *, keep=Learned(0.5, low=0, high=1)):
    n = tahn(x.n + U.n(h))
    return keep * h + (1 - keep) * n
"""


def test_a_cell_is_typed_mended_and_trained(look: Visit, watched: Path) -> None:
    page = look.open("#/bench?cell=elman")
    page.get_by_role("tab", name="Equations").click()
    page.get_by_text("h' = tanh(x.h + U.h(h))").wait_for()
    text = page.get_by_label("Equations of the cell")
    text.fill(WRONG)
    fault = page.get_by_text("Line 2, column 9")
    fault.wait_for()
    assert "Did you mean 'tanh'?" in page.locator(".fault").inner_text()
    assert page.locator(".marks mark").inner_text() == "tahn"
    assert page.get_by_role("button", name="Train this").is_disabled()
    text.fill(WRONG.replace("tahn", "tanh"))
    page.get_by_text("h' = keep * h + (1 - keep) * n").wait_for()
    fault.wait_for(state="hidden")
    look.check_all_looks()

    page.get_by_label("Steps").fill("40")
    page.get_by_label("Units", exact=True).nth(0).fill("6")
    page.get_by_role("button", name="Train this").click()
    steps = page.locator(".step-count")
    steps.wait_for(timeout=60_000)
    seen = {int(re.findall(r"step (\d+)", steps.inner_text())[0])}
    page.get_by_text("Ended.").wait_for(timeout=60_000)
    seen.add(int(re.findall(r"step (\d+)", steps.inner_text())[0]))
    assert 40 in seen
    name = steps.inner_text().split(":")[0]
    run = rc.open(watched / name)
    assert run.task.settings.model.cell.endswith(".json")
    assert "keep * h" in str(rc.find_cell(run.task.settings.model.cell).graph)
    assert len(run.snapshots) == 20
    page.locator(".curves canvas").first.wait_for()


def test_a_slider_moves_the_field(look: Visit) -> None:
    page = look.open("#/bench?cell=elman&units=2")
    page.get_by_role("slider", name="U.h[0,0]").wait_for()
    page.wait_for_timeout(200)
    before = page.evaluate(PLANE)
    page.get_by_role("slider", name="U.h[0,0]").fill("3.5")
    wait_for_change(page, before)
    chooser(page, "Units").select_option("1")
    wait_for(lambda: page.get_by_role("slider", name="U.h[0,1]").count() == 0)
    page.get_by_role("tab", name="Kernel").click()
    page.locator(".kernel", has_text="tanh").wait_for()
    page.get_by_role("tab", name="Engines").click()
    page.get_by_role("cell", name="eager").wait_for()
    page.get_by_role("button", name="Python", exact=True).click()
    lines = page.locator("pre[aria-label=Python]").first.inner_text()
    scope: dict[str, Any] = {}
    exec(lines, scope)  # the lines that the page shows give the same
    assert scope["elman"].graph.nodes == rc.find_cell("elman").graph.nodes


HOSTILE = [
    "def f(x, U, h): return __import__('os').system('touch {file}')",
    "def f(x, U, h): return (lambda: open('{file}', 'w'))()",
    "def f(x, U, h): return f\"{{open('{file}', 'w')}}\"",
    "def f(x, U, h): return [open('{file}', 'w') for _ in (1,)]",
    "def f(x, U, h): return h.__class__.__base__.__subclasses__()",
    "@open('{file}', 'w').write\ndef f(x, U, h): return h",
    "@cell(bias=dict(a=open('{file}', 'w')))\ndef f(x, U, h): return x.a",
    "def f(x, U, h, *, k=open('{file}', 'w')): return h",
    "def f(x, U, h=open('{file}', 'w')): return h",
    "def f(x: open('{file}', 'w'), U, h): return h",
    "def f(x, U, h) -> open('{file}', 'w'): return h",
    "import os; os.system('touch {file}')\ndef f(x, U, h): return h",
    "def f(x, U, h):\n    global os\n    return h",
    "def f(x, U, h):\n    exec(\"open('{file}', 'w')\")\n    return h",
    "class f:\n    open('{file}', 'w')",
    "def f(x, U, h): return h ** 9 ** 9 ** 9 ** 9",
    "def f(x, U, h): return " + "(" * 3000 + "h" + ")" * 3000,
    "def f(x, U, h): return " + "-" * 9000 + "h",
    "def f(x, U, h):\n" + "    h = h + h\n" * 600 + "    return h",
    "def f(x, U, h): return x._reading",
    "</script><script>alert(1)</script>",
    "\0",
]

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("path", ["read", "kernel", "portrait", "train"])
def test_nothing_that_is_typed_is_executed(watched_lab: Any, tmp_path: Path, path: str, watched: Path) -> None:
    """Hostile text is refused at a place, quickly, by every request that takes it; no file appears, no training starts."""
    file, before = tmp_path / "touched", {each.name for each in watched.iterdir()}
    with httpx.Client(base_url=watched_lab.base, timeout=20) as client:
        for source in HOSTILE:
            text = source.replace("{file}", str(file)).replace("{{", "{").replace("}}", "}")
            began = time.monotonic()
            answer = client.post(f"api/bench/{path}", content=json.dumps({"source": text}), headers=JSON)
            assert time.monotonic() - began < 5
            assert answer.status_code == (200 if path == "read" else 400), (source[:60], answer.text[:200])
            assert "error_at" in answer.json() or "line " in answer.json()["error"]
        large = client.post(f"api/bench/{path}", json={"source": "h" * 1_000_000})
        assert large.status_code in (413, 422)
    assert not file.exists()
    assert {each.name for each in watched.iterdir()} == before


def test_a_cell_outside_of_the_folder_is_not_trained(watched_lab: Any, tmp_path: Path) -> None:
    """The page may start trainings of cells that it keeps itself, and of no other file."""
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'touched')!r}, 'w')")
    for cell in (
        f"{tmp_path}/evil.py:cell",
        f"{tmp_path}/a.json",
        "../a.json",
        "a.py:b",
        f"{watched_lab.folder.path}/.lab/cells/../../x.json",
    ):
        body = {"recipe": "tomita", "settings": {"model.cell": cell}}
        answer = httpx.post(f"{watched_lab.base}api/runs/start", json=body)
        assert answer.status_code == 400
        assert "which the page does not start" in answer.json()["error"]
    assert not (tmp_path / "touched").exists()
