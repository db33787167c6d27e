"""Hostile requests: every answer is JSON of one shape below 500, and the log stays empty."""

import json
import logging
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

import recurra as rc
from tests.serve.conftest import new_session, open_client, step

STRANGE: list[Any] = [
    None,
    True,
    -1,
    0,
    1e308,
    10**30,
    "",
    "x" * 5000,
    "\x00",
    "💥",
    "../../etc/passwd",
    [],
    [[]],
    [None],
    [[[[]]]],
    {},
    {"": {}},
    {"$ref": "#"},
    "' OR 1=1 --",
    "{{7*7}}",
    "%s%n",
    ["a"] * 500,
    [1] * 500,
    [[1.5, 2.5]],
    [{"a": 1}],
    {"a": [1]},
    "a\nb",
    0.1,
]
BODIES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"NaN",
    b'{"inputs": NaN}',
    b'{"inputs": [Infinity]}',
    b'{"inputs": [1e999]}',
    b"\xff\xfe\x00",
    b'{"inputs": "\\ud800"}',
    b'{"model": "\\udfff"}',
    b"[" * 50_000,
    b'{"a":' * 20_000,
    b"1" * 5000,
    b'{"inputs": [' + b"9" * 5000 + b"]}",
    b'{"inputs": "a", "inputs": 3}',
    b'"' + b"a" * 100_000,
    b'{"__proto__": {}}',
    b"\x00" * 100,
    '{"inputs": "é'.encode("latin-1"),
]
PATHS = [
    "/v1/predict",
    "/v1/generate",
    "/v1/forecast",
    "/v1/translate",
    "/v1/score",
    "/v1/sessions",
    "/v1/steps",
    "/v1/sessions/{}/step",
    "/v1/sessions/{}/state",
    "/v1/sessions/{}",
    "/v1/sessions//step",
    "/v1/sessions/%00/step",
    "/v1/sessions/../step",
    "/v1/sessions/%2e%2e",
    "/v1/sessions/é/step",
    "/",
    "//",
    "/v1",
    "/metrics/",
    "/openapi.json?x=%ff",
    "/v1/sessions/" + "x" * 32 + "/step",
    "/v1/sessions/" + "y" * 9000,
]
FIELDS = {
    "/v1/predict": ("data",),
    "/v1/generate": ("prime", "length", "temperature", "top_k", "top_p", "given", "seed", "greedy"),
    "/v1/forecast": ("steps", "data"),
    "/v1/translate": ("texts", "beam"),
    "/v1/score": ("text",),
    "/v1/sessions": ("state", "steps"),
    "/v1/steps": ("steps",),
    "/v1/sessions/{}/step": ("inputs", "top", "each"),
    "/v1/sessions/{}/state": ("state", "steps"),
}
MODELS = ("text", "tomita", "series", "walks", "dates")


@pytest.fixture(scope="module")
def server(runs: list[rc.Run]) -> Iterator[str]:
    with rc.serve(*runs, port=0, store="memory", background=True) as made:
        yield made.url


def check(answer: httpx.Response) -> None:
    assert answer.status_code < 500, (answer.request.url, answer.request.content[:300], answer.text[:500])
    assert "Traceback" not in answer.text
    if answer.status_code >= 400:
        told = answer.json()
        assert set(told) == {"error"}, answer.text
        assert set(told["error"]) == {"code", "message"}
        assert "/tmp" not in told["error"]["message"], told


def attack(url: str, count: int, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """Requests drawn from what is strange: bodies that are no JSON, fields of other types, addresses, methods, headers."""
    draw = random.Random(seed)
    with caplog.at_level(logging.WARNING), open_client(url) as client:
        id = new_session(client, model="text")
        for _ in range(count):
            path = draw.choice(PATHS)
            method = draw.choice(["POST"] * 6 + ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
            body = draw.choice(BODIES)
            if path in FIELDS and draw.random() < 0.8:
                method = "PUT" if path.endswith("state") else "POST"
                asked = {name: draw.choice(STRANGE) for name in FIELDS[path] if draw.random() < 0.8}
                if draw.random() < 0.9 and "{}" not in path:
                    asked["model"] = draw.choice(MODELS)
                body = json.dumps(asked).encode()
            headers = {"Content-Type": draw.choice(["application/json"] * 8 + ["text/plain", ""])}
            address = path.replace("{}", draw.choice([id, "z" * 32, "..", "a b"]))
            if method == "DELETE" and id in address:
                continue
            answer = client.request(method, address, content=body, headers=headers)
            if method != "HEAD":
                check(answer)
        assert step(client, id, "the cat")["session"] == id  # it still works
    assert not [record for record in caplog.records if record.name.startswith(("recurra", "uvicorn.error"))], (
        caplog.text
    )


def test_hostile_requests(server: str, caplog: pytest.LogCaptureFixture) -> None:
    attack(server, 250, 0, caplog)


@pytest.mark.slow
def test_two_thousand_hostile_requests(server: str, caplog: pytest.LogCaptureFixture) -> None:
    attack(server, 2000, 1, caplog)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_the_document_allows_and_what_it_forbids(server: str, caplog: pytest.LogCaptureFixture) -> None:
    """Schemathesis draws requests from the OpenAPI document, valid and not: none may fail the server."""
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, given, settings

    schema, count = schemathesis.openapi.from_url(f"{server}/openapi.json"), 0
    quick = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    with caplog.at_level(logging.WARNING):
        for operation in schema.get_all_operations():

            @quick
            @given(case=operation.ok().as_strategy())
            def ask(case: Any) -> None:
                nonlocal count
                answer = case.call()
                assert answer.status_code < 500, answer.text
                assert "Traceback" not in answer.text
                count += 1

            ask()
    assert count >= 1000
    assert not [record for record in caplog.records if record.name.startswith(("recurra", "uvicorn.error"))], (
        caplog.text
    )


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{",
        b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    ],
    ids=range(7),
)
def test_bytes_that_are_no_request(sent: bytes, server: str) -> None:
    where = urlsplit(server)
    with socket.create_connection((where.hostname or "", where.port or 0), 5) as made:
        made.settimeout(1)
        made.sendall(sent)
        made.shutdown(socket.SHUT_WR)
        try:
            answer = made.recv(10_000)
        except (TimeoutError, ConnectionResetError):
            answer = b""
    assert b" 500 " not in answer.partition(b"\r\n")[0]
    assert b"Traceback" not in answer
    with open_client(server) as client:
        assert client.get("/healthz").status_code == 200


def test_no_data_is_left_behind(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a client sends to be read is staged in files, which go with the answer."""
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with open_client(server) as client:
        for data in ([[1.0, 2.0, 3.0]], ["text"]):
            client.post("/v1/predict", json={"model": "walks", "data": data})
        client.post("/v1/forecast", json={"model": "series", "steps": 2, "data": [0.1] * 30})
    assert list(tmp_path.iterdir()) == []
