"""Rooms that share their name with a function: `recurra.runs` is a package, and `rc.runs("runs")` lists runs."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


def make_callable(room: str, module: str, function: str) -> None:
    """Calling the package `room` calls a function of another module, which is imported only then."""

    class Room(ModuleType):
        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return getattr(import_module(module), function)(*arguments, **options)

    sys.modules[room].__class__ = Room
