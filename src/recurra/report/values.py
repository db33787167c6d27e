"""Numbers beside the pictures, for other programs."""

from __future__ import annotations

import json
from typing import Any

from recurra.runs.disk import replace_file
from recurra.runs.folder import RunFolder


def write_values(folder: RunFolder, name: str, values: dict[str, Any]) -> None:
    """A JSON file in RUN/explain/."""
    folder.explain.mkdir(exist_ok=True)
    replace_file(folder.explain / name, (json.dumps(values, indent=2) + "\n").encode())
