"""Session steps a second over HTTP, beside a plain handler around `nn.LSTM`: each server is a process, this one is the client.

Each way is measured in turn, round by round, after its answers were compared with the stream that is read without a server.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from recurra.benchmarks.load import drive, request
from recurra.benchmarks.timing import Say, Spread, describe_machine, quiet
from recurra.results import Result, Table
from recurra.tasks.run import Run
from recurra.tasks.train import train

TEXT = "the cat sat on the mat. the dog sat on the log. "
SEVERAL, TOGETHER = 16, 50
"""Steps of one request, and sessions of one request, where there are several."""
LIMIT = 1e-4
"""How far the probabilities of the plain handler may be from ours: its products sum in another order."""


@dataclass(frozen=True)
class Way:
    """Steps a second, and milliseconds of a request, over all rounds."""

    rate: Spread
    p50: Spread
    p99: Spread


@dataclass(frozen=True)
class Serving(Result):
    """Ways to step sessions, by name. `exact`: whether every answer that was compared equals the stream's, bit for bit."""

    hidden_size: int
    sessions: int
    exact: bool
    machine: dict[str, Any]
    ways: dict[str, Way]

    def ratio(self, way: str = "a step a request") -> float:
        """How many times the steps of the faster plain handler."""
        plain = max(each.rate.median for name, each in self.ways.items() if name.startswith("plain"))
        return self.ways[way].rate.median / plain

    def table(self) -> Table:
        rows = [
            [
                name,
                f"{each.rate.median:,.0f}",
                f"{each.p50.median:.1f}",
                f"{each.p99.median:.1f}",
                f"{self.ratio(name):.1f}",
            ]
            for name, each in self.ways.items()
        ]
        bits = "equal to the offline stream bit for bit" if self.exact else "NOT EQUAL to the offline stream"
        title = f"{self.sessions} sessions of an LSTM-{self.hidden_size}, {self.machine['cores']} cores; answers {bits}"
        return Table(["", "steps/s", "p50 ms", "p99 ms", "times plain"], rows, title)


@contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A server of our own, ended with the block."""
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as made:
        try:
            yield made
        finally:
            made.terminate()


@contextmanager
def recurra_server(run: Path, *options: str) -> Iterator[str]:
    """The address of `recurra serve`."""
    with process("-m", "recurra", "serve", str(run), "--port", "0", "--json", *options) as made:
        assert made.stdout is not None
        told = ""
        while not told.endswith("}\n"):
            line = made.stdout.readline()
            if not line:
                raise RuntimeError("the server could not be started")
            told += line
        yield json.loads(told)["url"]


@contextmanager
def plain_server(run: Path) -> Iterator[str]:
    with process("-m", "recurra.benchmarks.plain_server", str(run)) as made:
        assert made.stdout is not None
        yield made.stdout.readline().strip()


def post(url: str, path: str, body: Any) -> Any:
    """An answer to one request."""
    asked = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as answer:
        return json.load(answer)


def bench_serve(
    *, hidden_size: int = 256, sessions: int = 200, seconds: float = 5.0, rounds: int = 3, say: Say = quiet
) -> Serving:
    """Measure `recurra serve` and the plain handler in turn."""
    with tempfile.TemporaryDirectory(prefix="recurra-") as folder:
        path = Path(folder) / "text"
        sizes: dict[str, Any] = {"hidden_size": hidden_size, "embedding_size": hidden_size, "batch_size": 4}
        run = train("text", [TEXT * 40] * 3, out=path, progress="none", steps=2, **sizes)
        with (
            recurra_server(path, "--store", str(Path(folder) / "sessions.sqlite")) as ours,
            plain_server(path) as plain,
        ):
            exact = _agree(run, ours, plain)
            found: dict[str, list[Any]] = {}
            for number in range(rounds):
                for name, measure in _ways(ours, plain, sessions, run.task.tokenizer.size).items():
                    say(f"round {number + 1} of {rounds}: {name}")
                    found.setdefault(name, []).append(measure(seconds))
    ways = {
        name: Way(*(Spread.of([each[k] for each in measured]) for k in range(3))) for name, measured in found.items()
    }
    return Serving(hidden_size, sessions, exact, describe_machine("cpu", 1), ways)


def _agree(run: Run, ours: str, plain: str) -> bool:
    """Compare both servers with the stream of the run; whether ours gives the same bits."""
    ids = [post(ours, "/v1/sessions", {})["id"] for _ in range(8)]
    other = post(plain, "/v1/sessions", {})["id"]
    stream, exact = run.stream(), True
    for character in TEXT:
        expected = stream.step(character)
        asked = [{"session": id, "inputs": character} for id in ids]
        exact &= all(each["prediction"] == expected for each in post(ours, "/v1/steps", {"steps": asked})["steps"])
        token = run.task.tokenizer.encode(character).tolist()  # type: ignore[attr-defined]
        found = post(plain, f"/v1/sessions/{other}/step", {"inputs": token})["prediction"]["probabilities"]
        if max(abs(a - b) for a, b in zip(found, expected["probabilities"], strict=True)) > LIMIT:
            raise RuntimeError("the plain handler computes something else: there is nothing to compare.")
    return exact


def _ways(
    ours: str, plain: str, sessions: int, vocabulary: int
) -> dict[str, Callable[[float], tuple[float, float, float]]]:
    def single(url: str, path: str, steps: int, seconds: float) -> tuple[float, float, float]:
        ids = [post(url, "/v1/sessions", {})["id"] for _ in range(sessions)]

        def sender(id: str) -> Callable[[int], bytes]:
            at = path.format(id)
            bodies = [
                request(url, at, json.dumps({"inputs": [(n + k) % vocabulary for k in range(steps)]}).encode())
                for n in range(16)
            ]
            return lambda n: bodies[n % 16]

        return _measured(url, [sender(id) for id in ids], seconds, steps)

    def together(url: str, seconds: float) -> tuple[float, float, float]:
        ids = [post(url, "/v1/sessions", {})["id"] for _ in range(sessions)]
        groups = [ids[k : k + TOGETHER] for k in range(0, len(ids), TOGETHER)]

        def sender(group: Sequence[str]) -> Callable[[int], bytes]:
            bodies = [
                request(
                    url, "/v1/steps", json.dumps({"steps": [{"session": id, "inputs": [n]} for id in group]}).encode()
                )
                for n in range(min(16, vocabulary))
            ]
            return lambda n: bodies[n % len(bodies)]

        return _measured(url, [sender(group) for group in groups], seconds, TOGETHER)

    step = "/v1/sessions/{}/step"
    return {
        "a step a request": partial(single, ours, step, 1),
        f"{SEVERAL} steps a request": partial(single, ours, step, SEVERAL),
        f"{TOGETHER} sessions a request": partial(together, ours),
        "plain FastAPI and nn.LSTM": partial(single, plain, step, 1),
        "plain, in a thread": partial(single, plain, "/threads/{}/step", 1),
    }


def _measured(
    url: str, senders: Sequence[Callable[[int], bytes]], seconds: float, steps: int
) -> tuple[float, float, float]:
    found = drive(url, senders, seconds)
    if found.failed:
        raise RuntimeError(f"{found.failed} requests to {url} failed")
    return found.rate * steps, found.p50, found.p99
