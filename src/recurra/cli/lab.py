from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json


def lab(
    folder: Annotated[Path, typer.Argument(help="A folder of runs, or a run.")] = Path("runs"),
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Where it answers; 8745 or a free one otherwise.")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    as_json: AsJson = False,
) -> None:
    """Open the lab: a live page about the runs of a folder. Ctrl-C ends it; trainings that it started go on."""
    from recurra.lab.server import open_lab

    opened = open_lab(folder, port=port, browser=browser)
    if as_json:
        print_json({"address": opened.address, "folder": str(opened.folder.path)})
    else:
        print(opened.address, flush=True)
        typer.echo("Ctrl-C ends the lab. Whoever has this address can use it.", err=True)
    try:
        opened.wait()
    except KeyboardInterrupt:
        pass
    finally:
        opened.close()
