"""Who is answered. Requests are sent byte by byte as they are: a client that tidies paths would hide what is tested."""

import http.client
import json
import random
import string
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from recurra.lab import processes
from recurra.lab.security import BODY
from recurra.lab.views import VIEWS

from .browser import Visit

SECRET = "the moon is made of green cheese"
HOSTILE = (
    *("../secret.txt", "..", "../..", "/etc/passwd", "text/../../secret.txt", "..%2fsecret.txt", "%2e%2e/secret.txt"),
    *(
        "..\\secret.txt",
        "text\x00",
        "\x00",
        "link",
        "link/secret.txt",
        ".lab",
        "<script>alert(1)</script>",
        "'; rm -rf ~",
    ),
    *(
        "$(touch hacked)",
        "`touch hacked`",
        "{{7*7}}",
        "%n%s%d",
        "a" * 5000,
        "\u202e",
        "\ud83d\ude00",
        "__import__('os')",
    ),
    *(
        "-1",
        "1e309",
        "NaN",
        "null",
        "true",
        "[]",
        "{}",
        "0x10",
        "9" * 400,
        " ",
        "text ",
        "TEXT",
        "con",
        "file:///etc/passwd",
    ),
)
PATHS = (
    *(
        "",
        "index.html",
        "main.js",
        "kit/../main.js",
        "../server.py",
        "..%2f..%2fserver.py",
        "%2e%2e/%2e%2e/pyproject.toml",
    ),
    *(
        "views/",
        "api",
        "api/",
        "api/nothing",
        "api/runs/",
        "vendor/uplot/LICENSE",
        "//etc/passwd",
        "./../../etc/passwd",
    ),
)
ENDLESS = ("runs/live",)


def every_route() -> dict[str, tuple[str, list[str]]]:
    """Of every path of every view: its method, and the names of what it is asked with."""
    found = {}
    for view, router in VIEWS.items():
        for route in router.routes:
            dependant = route.dependant  # type: ignore[attr-defined]
            bodies = [each.field_info.annotation.model_fields for each in dependant.body_params]
            names = [*(each.name for each in dependant.query_params), *(name for fields in bodies for name in fields)]
            (method,) = route.methods  # type: ignore[attr-defined]
            found[f"{view}{route.path}"] = method, names  # type: ignore[attr-defined]
    return {path: asked for path, asked in found.items() if path not in ENDLESS}


ROUTES = every_route()
GETS, POSTS = ([path for path, (method, _) in ROUTES.items() if method == each] for each in ("GET", "POST"))


class Wire:
    """A connection on which anything can be said."""

    def __init__(self, lab: Any):
        parts = urlsplit(lab.base)
        assert parts.port
        self.host, self.port, self.token = parts.hostname, parts.port, parts.path
        self.connection = http.client.HTTPConnection(str(self.host), self.port, timeout=60)

    def ask(
        self, path: str, method: str = "GET", body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, str, dict[str, str]]:
        given = {"Host": f"{self.host}:{self.port}", "Content-Length": str(len(body))} | (headers or {})
        try:
            self.connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                self.connection.putheader(name, value)
            self.connection.endheaders(body)
            answer = self.connection.getresponse()
            found = (
                answer.status,
                answer.read().decode(errors="replace"),
                {k.lower(): v for k, v in answer.getheaders()},
            )
        except (http.client.HTTPException, OSError):
            self.connection.close()
            raise
        return found


@pytest.fixture
def wire(lab: Any) -> Iterator[Wire]:
    made = Wire(lab)
    yield made
    made.connection.close()


@pytest.mark.parametrize("path", ["", "main.js", "api/runs/list", "api/runs/live", "nothing"])
def test_without_the_token_nothing_answers(wire: Wire, path: str) -> None:
    wrong = [f"/{path}", f"/{'x' * 32}/{path}", f"/{wire.token[1:-2]}/{path}", f"/?token={wire.token[1:-1]}", "//"]
    for each in wrong:
        status, text, _ = wire.ask(each)
        assert status == 403, each
        assert "token" in json.loads(text)["error"]
        assert wire.token[1:-1] not in text


def test_with_the_token_the_page_answers(wire: Wire) -> None:
    status, text, headers = wire.ask(wire.token)
    assert status == 200
    assert "Recurra" in text
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert wire.ask(wire.token[:-1])[0] == 307  # the slash at the end


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", ""])
def test_another_host_is_refused(wire: Wire, host: str) -> None:
    status, text, _ = wire.ask(wire.token, headers={"Host": host.format(port=wire.port)})
    assert status == 400
    assert "Recurra lab" not in text


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"])
def test_another_origin_is_refused(wire: Wire, origin: str) -> None:
    headers = {"Origin": origin.format(port=wire.port), "Content-Type": "application/json"}
    assert wire.ask(f"{wire.token}api/runs/stop", "POST", b'{"run":"text"}', headers)[0] == 403
    assert wire.ask(f"{wire.token}api/runs/list", headers=headers)[0] == 403
    own = {"Origin": f"http://localhost:{wire.port}", "Host": f"localhost:{wire.port}"}
    assert wire.ask(f"{wire.token}api/runs/list", headers=own)[0] == 200


def test_large_bodies_are_refused(wire: Wire) -> None:
    kind = {"Content-Type": "application/json"}
    status, _, _ = wire.ask(f"{wire.token}api/time/read", "POST", b"", kind | {"Content-Length": str(BODY + 1)})
    assert status == 413
    wire.connection.close()
    chunked = kind | {"Transfer-Encoding": "chunked"}
    wire.connection.putrequest("POST", f"{wire.token}api/time/read", skip_host=True)
    for name, value in ({"Host": f"{wire.host}:{wire.port}"} | chunked).items():
        wire.connection.putheader(name, value)
    wire.connection.endheaders()
    piece = b"x" * 65536
    try:
        for _ in range(BODY // len(piece) + 2):
            wire.connection.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        wire.connection.send(b"0\r\n\r\n")
        assert wire.connection.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # it hung up, which is an answer too


def test_other_methods_are_refused(wire: Wire) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert wire.ask(f"{wire.token}api/runs/list", method)[0] == 405


def hostile_value(random: random.Random) -> Any:
    kind = random.randrange(8)
    if kind < 4:
        return random.choice(HOSTILE)
    if kind == 4:
        return random.choice(["text", "machine", "dates"])
    if kind == 5:
        return "".join(random.choice(string.printable) for _ in range(random.randrange(40)))
    if kind == 6:
        return random.choice(
            [-1, 0, 3, 10**30, 1.5, None, True, [], {}, [["x"]], {"a": {"b": "../c"}}, {"model.cell": "x.py:f"}]
        )
    return bytes(random.randrange(256) for _ in range(random.randrange(1, 30))).decode("latin-1")


def hostile_request(random: random.Random, token: str) -> tuple[str, str, bytes, dict[str, str]]:
    kind = random.randrange(10)
    if kind < 2:
        return token + random.choice(PATHS), "GET", b"", {}
    if kind == 2:
        name = quote(str(random.choice(HOSTILE)), safe="/.%", errors="replace")
        return f"{token}{name}", "GET", b"", {}
    path = random.choice(GETS if kind < 6 else POSTS)
    known = ROUTES[path][1]
    keys = [name for name in known if random.random() < 0.7] + random.sample(["path", "__class__", "run"], 1)
    body = {key: hostile_value(random) for key in keys}
    if kind < 6:
        query = "&".join(f"{key}={quote(str(value), safe='', errors='replace')}" for key, value in body.items())
        return f"{token}api/{path}?{query}", "GET", b"", {}
    sent = json.dumps(body).encode() if random.random() < 0.9 else bytes(random.randrange(256) for _ in range(60))
    kinds = ("application/json", "text/plain", "multipart/form-data", "application/json; charset=utf-16")
    return f"{token}api/{path}", "POST", sent, {"Content-Type": random.choices(kinds, (9, 1, 1, 1))[0]}


def test_two_thousand_hostile_requests(
    lab: Any, wire: Wire, runs: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """None gets out of the folder, none starts a process but to resume a run, none fails in a way that was not foreseen."""
    secret, link = runs.parent / "secret.txt", runs / "link"
    secret.write_text(SECRET)
    link.symlink_to(runs.parent)
    started: list[Any] = []

    def popen(command: list[str], **how: Any) -> None:
        started.append(command)
        raise PermissionError(1, "not in this test")

    monkeypatch.setattr(processes, "subprocess", SimpleNamespace(Popen=popen, DEVNULL=-3))
    monkeypatch.setattr(lab.folder, "home", runs.parent)
    before = {path: path.stat().st_mtime_ns for path in runs.parent.rglob("*") if "explain" not in path.parts}
    dice, seen = random.Random(20), dict[int, int]()
    try:
        for number in range(2000):
            path, method, body, headers = hostile_request(dice, wire.token)
            try:
                status, text, _ = wire.ask(path, method, body, headers)
            except (http.client.HTTPException, ValueError, UnicodeError):
                continue  # not even a request
            seen[status] = seen.get(status, 0) + 1
            assert status < 500, (number, method, path, body, text)
            assert SECRET not in text
            assert "root:x:" not in text
            assert "Traceback" not in text
            assert "[project]" not in text
    finally:
        link.unlink()
        secret.unlink()
    after = {path: path.stat().st_mtime_ns for path in runs.parent.rglob("*") if "explain" not in path.parts}
    assert {path for path in after if path not in before} <= {runs / ".lab", *(runs / ".lab").glob("*.log")}
    known = [str(runs / name) for name in ("text", "machine", "dates", "wave", "text-lstm")]
    assert all(each[3:5] == ["train", "--resume"] and each[5] in known for each in started)  # which a page may ask for
    assert caplog.records == []
    assert sum(seen.values()) > 1800
    assert {200, 400, 404, 422} <= set(seen)


def test_script_in_names_and_texts_is_text(visit: Visit, runs: Path) -> None:
    """A run whose name, recipe and text are markup: shown as they are, and nothing of them runs."""
    evil = "<img src=x onerror=hacked=1>"
    folder = runs / evil
    folder.mkdir()
    (folder / "recipe.json").write_text(
        json.dumps({"name": "<script>hacked=1</script>", "model": {"cell": "<b>x</b>"}})
    )
    (folder / "metrics.jsonl").write_text('{"loss":1.0,"step":1}\n{"loss":0.5,"step":2,"<i>y</i>":1}\n')
    text = "<script>hacked=1</script><img src=x onerror=hacked=1>"
    try:
        page = visit.open(f"#/runs?run={quote(evil)}")
        page.locator("table.runs").get_by_text(evil).wait_for()
        page.locator("table.runs").get_by_text("<script>hacked=1</script>").wait_for()
        page.locator(".u-legend").get_by_text(evil).wait_for()
        visit.is_refused = True  # the run cannot be opened
        page = visit.open(f"#/time?run=text&text={quote('the ' + text)}")
        page.wait_for_function("() => document.querySelector('.tokens')?.textContent.includes('<script>')")
        page = visit.open(f"#/generate?run=text&prime={quote(text)}")
        page.get_by_role("button", name="Write").click()
        page.get_by_role("alert").wait_for()
        assert page.evaluate("typeof hacked") == "undefined"
        assert page.locator("main script, main img").count() == 0
    finally:
        for each in folder.iterdir():
            each.unlink()
        folder.rmdir()
