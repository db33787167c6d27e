from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from recurra.cli.output import AsJson, Device, print_json


def serve(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders; each is a model by its name.")],
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0: any that is free.")] = 8100,
    api_key: Annotated[
        str | None, typer.Option(envvar="RECURRA_API_KEY", help="Clients must send it: Authorization: Bearer KEY.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="Where sessions are kept: FILE.sqlite, redis://HOST:PORT/N, memory; none: RUN/sessions.sqlite."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes; with several, sessions live in the store.")] = 1,
    threads: Annotated[int, typer.Option(help="Of one call of the engine; more pay for large models.")] = 1,
    max_sessions: Annotated[int, typer.Option(help="Beyond, the one not used for longest is forgotten.")] = 10_000,
    ttl: Annotated[float, typer.Option(help="Seconds until an unused session is forgotten.")] = 3600.0,
    save_every: Annotated[float, typer.Option(help="Seconds between two savings of sessions.")] = 5.0,
    max_batch: Annotated[int, typer.Option(help="Sessions in one call of the engine, at most.")] = 256,
    max_wait: Annotated[float, typer.Option(help="Seconds that a step waits for others.")] = 0.001,
    max_steps: Annotated[int, typer.Option(help="Inputs of one request.")] = 4096,
    max_body: Annotated[int, typer.Option(help="Bytes of one request.")] = 1 << 20,
    rate: Annotated[float, typer.Option(help="Requests a second of one client address; 0: any number.")] = 0.0,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Serve trained runs over HTTP: batch verbs, and sessions that keep the state of a stream."""
    options: dict[str, Any] = {name: value for name, value in locals().items() if name not in ("runs", "as_json")}
    from recurra.serve.server import serve as serve_runs

    def announce(about: dict[str, Any]) -> None:
        if as_json:
            print_json(about)
        else:
            print(
                f"{', '.join(about['models'])} at {about['url']}; see {about['url']}/openapi.json. Ctrl-C ends it.",
                flush=True,
            )

    serve_runs(*runs, announce=announce, **options)
