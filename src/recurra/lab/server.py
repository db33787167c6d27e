"""Start the lab: a port on 127.0.0.1, a token, and the address that has both."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import time
import webbrowser
from html import escape
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from recurra.errors import OptionError, RunError
from recurra.runs.creation import RECIPE

if TYPE_CHECKING:
    from recurra.tasks.run import Run

HOST, PORT = "127.0.0.1", 8745
"""Where the lab is found; with another port where this one is taken."""


class OpenLab:
    """A lab that answers until it is closed, or until the program ends. In a notebook it shows its page.

    - `address`: the page, with the token in it. Whoever has the address has the lab.
    """

    def __init__(self, folder: Path, selected: str | None = None, port: int | None = None):
        from recurra.lab.app import make_app
        from recurra.lab.folder import LabFolder

        uvicorn = find_uvicorn()
        self._socket = bind(port)
        number = int(self._socket.getsockname()[1])
        token = secrets.token_urlsafe(24)
        self.folder = LabFolder(folder, selected)
        app = make_app(self.folder, token, number)
        config = uvicorn.Config(
            app, log_level="error", access_log=False, server_header=False, lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self.base = f"http://{HOST}:{number}/{token}/"
        self.address = self.base + (f"#/runs?run={quote(selected)}" if selected else "")
        self._thread = Thread(target=self._server.run, args=([self._socket],), name="recurra-lab", daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)

    def wait(self) -> None:
        """Until the lab is closed, or Ctrl-C."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """Stop answering. Trainings that the lab started go on."""
        self.folder.close()
        self._server.should_exit = True
        self._thread.join(5)
        self._socket.close()

    def __repr__(self) -> str:
        return f"<lab at {self.address}>"

    def _repr_html_(self) -> str:
        address = escape(self.address, quote=True)
        return (
            f'<p><a href="{address}" target="_blank" rel="noopener">Open the lab in a tab of its own</a></p>'
            f'<iframe src="{address}" title="The lab of Recurra" width="100%" height="720" style="border:0"></iframe>'
        )


def open_lab(
    what: Run | str | os.PathLike[str] = "runs", *, port: int | None = None, browser: bool | None = None
) -> OpenLab:
    """The lab of a folder of runs, or of the folder that a run is in.

    - `what`: a run, its folder, or a folder of runs. `port`: where it answers; otherwise 8745, or another if that is taken.
    - `browser`: open it in the browser; `None`: unless this is a notebook, which shows the page itself.
    """
    folder, selected = find_folder(what)
    lab = OpenLab(folder, selected, port)
    if browser or (browser is None and "ipykernel" not in sys.modules):
        webbrowser.open(lab.address)
    return lab


def find_folder(what: Any) -> tuple[Path, str | None]:
    """The folder to show, and the run in it that was asked for."""
    path = Path(getattr(what, "path", what))
    if (path / RECIPE).is_file():
        return path.resolve().parent, path.resolve().name
    if not path.is_dir():
        found = "a file" if path.exists() else "not there"
        raise RunError(f"{path} is {found}; a folder of runs is asked for. Name one, or train first: recurra train.")
    return path, None


def find_uvicorn() -> Any:
    try:
        import fastapi  # noqa: F401
        import uvicorn
    except ImportError:
        raise OptionError("the lab needs fastapi and uvicorn. Install them with pip install 'recurra[lab]'.") from None
    return uvicorn


def bind(port: int | None) -> socket.socket:
    """A socket on this machine alone: at `port`, or at the usual one, or at any that is free."""
    for number in (PORT, 0) if port is None else (port,):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((HOST, number))
            return made
        except (OSError, OverflowError) as error:
            made.close()
            reason = getattr(error, "strerror", None) or str(error)
    raise OptionError(f"port {port} cannot be used: {reason}. Leave --port out, or name another.")
