"""Numbers beside the pictures, for other programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from recurra.runs.disk import replace_file
from recurra.runs.folder import RunFolder


def write_values(folder: RunFolder, name: str, values: dict[str, Any]) -> None:
    """A JSON file in RUN/explain/."""
    folder.explain.mkdir(exist_ok=True)
    replace_file(folder.explain / name, (json.dumps(values, indent=2) + "\n").encode())


def save_arrays(file: Path, arrays: Mapping[str, Tensor]) -> None:
    """The arrays of a result as `.npz`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    ready: dict[str, Any] = {name: value.detach().cpu().numpy() for name, value in arrays.items()}
    np.savez_compressed(file, **ready)
