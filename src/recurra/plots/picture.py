"""Pictures to files: SVG or PNG, the same bytes for the same drawing, whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from recurra.errors import OptionError
from recurra.runs.disk import reason, replace_file


def check_picture_name(file: Path) -> None:
    """Refuse a name that is no picture's, before anything is computed."""
    if file.suffix.lower() not in (".png", ".svg"):
        raise OptionError(f"{file}: a picture is .png or .svg; got {file.suffix or 'no ending'}. Name it so.")


def save_picture(figure: Any, file: Path) -> None:
    """Write a figure of matplotlib; the folder is made."""
    check_picture_name(file)
    data, ending = io.BytesIO(), file.suffix.lower()
    figure.savefig(data, format=ending[1:], dpi=150, metadata={"Date": None} if ending == ".svg" else None)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, data.getvalue())
    except OSError as error:
        raise OptionError(f"{file} cannot be written ({reason(error)}). Choose another place.") from error
