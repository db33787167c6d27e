"""A page that is driven and waited for: its policy forbids scripts that are made from text, so the test looks again and again."""

import re
import time
from collections.abc import Callable
from typing import Any

PLANE = "document.querySelector('canvas.plane').toDataURL()"
"""The picture of the state space as it is now."""


def wait_for(what: Callable[[], Any], seconds: float = 15) -> Any:
    """What a function gives, once it gives something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def wait_for_change(page: Any, before: str) -> None:
    """Until the plane looks other than before."""
    wait_for(lambda: page.evaluate(PLANE) != before)


def chooser(page: Any, label: str) -> Any:
    """The list of choices whose label begins so."""
    return page.locator("label.field").filter(has_text=re.compile(f"^{label}")).locator("select")
