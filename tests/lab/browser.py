"""A visit to the lab in a real browser: what a person does, and what must hold wherever they go."""

from pathlib import Path
from typing import Any

AXE = Path(__file__).parent / "vendor/axe/axe.min.js"
WIDTHS = (390, 1400)
SCHEMES = ("light", "dark")


class Visit:
    """A window of the browser on the lab. `said`: what the console said; `asked`: every request.

    - `is_refused`: the visitor asked for something that is refused on purpose, which the browser notes in its console.
    """

    def __init__(self, browser: Any, base: str, width: int = 1400):
        self.base = base
        window = {"width": width, "height": 900}
        # without transitions: a colour half way between two schemes has no contrast to speak of
        self.context = browser.new_context(viewport=window, accept_downloads=True, reduced_motion="reduce")
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.said: list[str] = []
        self.is_refused = False
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, place: str) -> Any:
        """Go to `#/VIEW?…`, and wait until something is shown."""
        self.page.goto(self.base + place)
        self.page.wait_for_selector("main h1")
        return self.page

    def check_all_looks(self) -> None:
        """Light and dark, wide and narrow: nothing sticks out, and axe finds nothing serious."""
        for width in WIDTHS:
            self.page.set_viewport_size({"width": width, "height": 900})
            self.check_width(width)
            for scheme in SCHEMES:
                self.page.emulate_media(color_scheme=scheme)
                found = self.findings()
                assert found == [], (width, scheme, found)
        self.page.set_viewport_size({"width": 1400, "height": 900})
        self.page.emulate_media(color_scheme="light")

    def check_width(self, width: int) -> None:
        self.page.wait_for_timeout(50)  # charts follow their place in the next frame
        found = self.page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert found[0] <= found[1] == width, found

    def findings(self) -> list[str]:
        """What axe finds serious or critical on the page as it is now."""
        if not self.page.evaluate("typeof window.axe !== 'undefined'"):
            self.page.evaluate(AXE.read_text())
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{each['id']}: {node['target']} {node['failureSummary']}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]

    def leave(self) -> None:
        """Close the window: nothing was said on the console, nothing was asked of another host."""
        outside = [url for url in self.asked if not url.startswith((self.base, "data:", "blob:"))]
        self.context.close()
        refusal = "the server responded with a status of 400"
        left = [line for line in self.said if not (self.is_refused and refusal in line)]
        assert left == [], left
        assert outside == [], outside
