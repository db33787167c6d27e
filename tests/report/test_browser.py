"""The report in a real browser: nothing fails, nothing is fetched, nothing sticks out, on light and dark, wide and narrow."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from recurra.cli.main import run

Train = Callable[..., Path]


def test_the_report_in_a_browser(browser: Any, train: Train) -> None:
    folder = train("python-source")
    assert run(["explain", str(folder), "--steps", "8", "--starts", "8"]) == 0
    assert run(["units", str(folder), "--html", "units.html"]) == 0
    grounds = set()
    for width, height in ((390, 844), (1280, 900)):
        for scheme in ("light", "dark"):
            for file in (folder / "report.html", Path("units.html").resolve()):
                context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
                page = context.new_page()
                said: list[str] = []
                asked: list[str] = []
                page.on("console", lambda message, said=said: said.append(message.text))
                page.on("pageerror", lambda error, said=said: said.append(str(error)))
                page.on("request", lambda request, asked=asked: asked.append(request.url))
                page.goto(file.as_uri())
                page.wait_for_load_state("load")
                assert said == []
                assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
                wide = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
                assert wide[0] <= wide[1] == width
                broken = "[...document.images].filter(each => !(each.complete && each.naturalWidth)).length"
                assert page.evaluate(broken) == 0
                ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
                grounds.add((scheme, ground))
                context.close()
    assert grounds == {("light", "rgb(255, 255, 255)"), ("dark", "rgb(22, 24, 29)")}
