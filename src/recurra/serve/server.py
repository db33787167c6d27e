"""`rc.serve`: runs behind uvicorn, in this process or in several, until somebody stops it."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from recurra.errors import OptionError, RunError
from recurra.serve.settings import ServeSettings, make_settings
from recurra.tasks.run import Run
from recurra.tasks.train import open_run

log = logging.getLogger("recurra.serve")
RunLike = Run | str | os.PathLike[str]
GRACE = 10
"""Seconds that requests have to end when the server is stopped."""
BACKLOG = 2048
"""Connections that wait to be accepted."""


def serve(
    *runs: RunLike,
    device: str = "cpu",
    background: bool = False,
    announce: Callable[[dict[str, Any]], None] | None = None,
    **options: Any,
) -> Server | None:
    """Serve runs over HTTP until Ctrl-C or a signal to end; sessions are saved then, and restored at the next start.

    - `runs`: of `rc.train`, `rc.open`, or their folders. `device`: where their models run.
    - `background`: serve in a thread, and give a `Server` back: `with rc.serve(run, background=True) as server`.
    - `announce`: told the address and the models once requests are taken.
    - options: those of `recurra serve --help`, such as `host`, `port`, `api_key`, `store`, `workers`, `max_sessions`, `ttl`.
    """
    settings = make_settings(**options)
    _find_packages()
    opened = [run if isinstance(run, Run) else open_run(run, device=device) for run in runs]
    for run in opened:
        if not run.is_trained:
            raise RunError(f"{run.path} has no checkpoint yet. Train it before you serve it.")
    if background and settings.workers > 1:
        raise OptionError("several workers are processes of their own: use workers=1 in the background.")
    server = Server(opened, settings, device)
    try:
        if background:
            server.start()
            return server
        server.run(announce)
    except BaseException:
        server.close()
        raise
    return None


def _find_packages() -> None:
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise OptionError(
            f"serve needs the package {error.name}. Install it with pip install 'recurra[serve]'."
        ) from None


class Server:
    """A server of some runs, and its address.

    - `url`: where it listens. `stop()` ends it, after requests were answered and sessions saved; leaving a `with` block does.
    """

    def __init__(self, runs: Sequence[Run], settings: ServeSettings, device: str):
        self.runs, self.settings = runs, settings
        self._device = device
        self._socket = _listen(settings.host, settings.port)
        host, port = self._socket.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{'127.0.0.1' if host == '0.0.0.0' else '[::1]' if host == '::' else shown}:{port}"
        self._server: Any = None
        self._thread: threading.Thread | None = None

    def about(self) -> dict[str, Any]:
        """The address and the models."""
        return {"url": self.url, "models": [run.path.name for run in self.runs], "workers": self.settings.workers}

    def run(self, announce: Callable[[dict[str, Any]], None] | None = None) -> None:
        """Serve in this thread, or in workers, until a signal."""
        if self.settings.workers > 1:
            self._run_workers(announce)
            return
        from uvicorn import Server as Uvicorn

        self._server = Uvicorn(_config(self._gate(owns_process=True)))
        if announce is not None:
            _when_ready(self._server, lambda: announce(self.about()))
        before = torch.get_num_threads()
        torch.set_num_threads(self.settings.threads)
        try:
            with suppress(KeyboardInterrupt):  # uvicorn has ended in good order, and tells of the signal
                self._server.run(sockets=[self._socket])
        finally:
            torch.set_num_threads(before)
        if not self._server.started:
            raise OptionError("the server could not start; the lines above say why.")

    def _gate(self, *, owns_process: bool = False) -> Any:
        from recurra.serve.gate import Gate
        from recurra.serve.service import Service

        service = Service(self.runs, self.settings)  # now, so that what cannot be served is an error of the call
        return Gate(lambda: service, owns_process=owns_process)

    def _run_workers(self, announce: Callable[[dict[str, Any]], None] | None) -> None:
        from uvicorn.supervisors import Multiprocess

        from recurra.serve.service import Service

        Service(self.runs, self.settings).sessions.close()  # what cannot be served is told once, not by each worker
        paths = [str(run.path.resolve()) for run in self.runs]
        config = _config(
            partial(make_worker, paths, self.settings, self._device), factory=True, workers=self.settings.workers
        )
        self._socket.listen(BACKLOG)  # who connects now waits for the first worker, and is not refused
        if announce is not None:
            announce(self.about())
        Multiprocess(config, sockets=[self._socket]).run()

    def start(self) -> None:
        """Serve in a thread; back when requests are taken."""
        from uvicorn import Server as Uvicorn

        self._server = Uvicorn(_config(self._gate()))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                raise OptionError("the server could not start; the log of recurra.serve says why.")
            time.sleep(0.01)

    def stop(self) -> None:
        """Answer what waits, save the sessions, end."""
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """Leave the address."""
        self._socket.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def make_worker(paths: Sequence[str], settings: ServeSettings, device: str) -> Any:
    """The application of one worker process."""
    from recurra.serve.gate import Gate
    from recurra.serve.service import Service

    torch.set_num_threads(settings.threads)
    return Gate(lambda: Service([open_run(Path(path), device=device) for path in paths], settings), owns_process=True)


def _config(app: Any, **options: Any) -> Any:
    from uvicorn import Config

    return Config(
        app,
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACE,
        backlog=BACKLOG,
        **options,
    )


def _listen(host: str, port: int) -> socket.socket:
    """A bound socket: an address that is taken is an error of the call."""
    try:
        family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except OSError as error:
        raise OptionError(
            f"{host}:{port} cannot be listened on ({error.strerror}). Choose another --host or --port."
        ) from error
    made.set_inheritable(True)
    return made


def _when_ready(server: Any, tell: Callable[[], None]) -> None:
    def wait() -> None:
        while not server.started and not server.should_exit:
            time.sleep(0.02)
        if server.started:
            tell()

    threading.Thread(target=wait, daemon=True).start()
