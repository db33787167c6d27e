"""Runs that are served: tiny, trained once for all tests of the server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import recurra as rc

TEXT = "the cat sat on the mat. the dog sat on the log. "


@pytest.fixture(scope="session")
def text_run(tmp_path_factory: pytest.TempPathFactory) -> rc.Run:
    how: dict[str, Any] = {"hidden_size": 16, "layers": 2, "embedding_size": 8, "batch_size": 4, "steps": 8}
    return rc.train("text", [TEXT * 40] * 3, out=tmp_path_factory.mktemp("runs") / "text", progress="none", **how)


@pytest.fixture(scope="session")
def runs(text_run: rc.Run, tmp_path_factory: pytest.TempPathFactory) -> list[rc.Run]:
    """One of each kind that a route is for."""
    place, few = tmp_path_factory.mktemp("more"), {"progress": "none", "steps": 4, "hidden_size": 8}
    waves = np.sin(np.arange(300) / 8)
    walks = [np.random.default_rng(k).normal(size=5 + k % 9).cumsum() for k in range(60)]
    labels = ["up" if walk[-1] > walk[0] else "down" for walk in walks]
    return [
        text_run,
        rc.train("tomita", out=place / "tomita", **few),
        rc.train("forecast", waves, out=place / "series", **few),
        rc.train("classify", (walks, labels), out=place / "walks", **few),
        rc.train("dates", out=place / "dates", **few),
    ]


@pytest.fixture
def client(text_run: rc.Run) -> Iterator[httpx.Client]:
    """A client of a server of the text model, whose sessions are in memory."""
    with rc.serve(text_run, port=0, store="memory", background=True) as server, open_client(server.url) as made:
        yield made


def open_client(url: str, **options: Any) -> httpx.Client:
    return httpx.Client(base_url=url, timeout=60, **options)


def new_session(client: httpx.Client, **asked: Any) -> str:
    answer = client.post("/v1/sessions", json=asked)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def step(client: httpx.Client, id: str, inputs: Any, **asked: Any) -> Any:
    answer = client.post(f"/v1/sessions/{id}/step", json={"inputs": inputs, **asked})
    assert answer.status_code == 200, answer.text
    return answer.json()


def store_of(folder: Path) -> str:
    return str(folder / "sessions.sqlite")
