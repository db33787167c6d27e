"""Stores keep sessions exactly, write a step only on the state that it began from, and forget what they are told to."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import recurra as rc
from recurra.serve.sessions import Session, Store
from recurra.serve.store import RedisStore, SQLiteStore, open_store
from tests.serve.conftest import new_session, open_client, step


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis server of our own, on a free port."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed (Debian: apt-get install redis-server)")
    pytest.importorskip("redis")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = str(tmp_path_factory.mktemp("redis"))
    quiet = ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--dir", folder, "--loglevel", "warning"]
    server = subprocess.Popen([program, "--port", str(port), *quiet], stdout=subprocess.DEVNULL)
    url = f"redis://127.0.0.1:{port}/0"
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.05)
    yield url
    server.terminate()
    server.wait()


@pytest.fixture(params=["sqlite", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "sqlite":
        made: Store = SQLiteStore(tmp_path / "deep" / "sessions.sqlite", shared=True)
    else:
        made = RedisStore(request.getfixturevalue("redis_url"))
        made._base.flushdb()
    yield made
    made.close()


def session(used: float = 1000.0, dtype: torch.dtype = torch.float32) -> Session:
    return replace(Session.new("text", "abc", torch.randn(37, dtype=dtype), 5), used=used)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_saved_is_loaded(store: Store, dtype: torch.dtype) -> None:
    one, two = session(dtype=dtype), session(dtype=dtype)
    assert store.save([one, two], compare=False) == [True, True]
    found = store.load([two.id, "x" * 32, one.id])
    assert found[1] is None
    for kept, given in ((found[0], two), (found[2], one)):
        assert kept is not None
        assert torch.equal(kept.state, given.state)
        assert replace(kept, state=given.state) == given
    assert {each.id for each in store.all()} == {one.id, two.id}


def test_a_step_is_written_on_the_state_that_it_began_from(store: Store) -> None:
    one = session()
    store.save([one], compare=False)
    mine, theirs = one.after(one.state + 1, 1), one.after(one.state + 2, 3)
    assert store.save([mine], compare=True) == [True]
    assert store.save([theirs], compare=True) == [False]
    assert store.save([session().after(one.state, 1)], compare=True) == [
        False
    ]  # one that was deleted does not come back
    (kept,) = store.load([one.id])
    assert kept is not None
    assert (kept.steps, kept.version) == (6, 1)
    assert torch.equal(kept.state, mine.state)
    assert store.count() == 1


def test_it_forgets(store: Store) -> None:
    made = [session(used=1000.0 + k) for k in range(6)]
    store.save(made, compare=False)
    assert store.delete([made[5].id, "x" * 32]) == 1
    assert store.expire(1001.5) == 2
    assert store.evict(2) == 1
    assert {each.id for each in store.all()} == {made[3].id, made[4].id}
    assert store.count() == 2


def test_a_server_on_redis(text_run: rc.Run, redis_url: str) -> None:
    stream = text_run.stream()
    how: dict[str, Any] = {"port": 0, "store": redis_url, "background": True}
    with (
        rc.serve(text_run, **how) as one,
        rc.serve(text_run, **how) as other,
        open_client(one.url) as first,
        open_client(other.url) as second,
    ):
        id = new_session(first)
        for k, inputs in enumerate(("the ", "cat", " sat", " on")):
            assert step((first, second)[k % 2], id, inputs)["prediction"] == stream.step(inputs)


@pytest.mark.parametrize(
    "where", ["redis://127.0.0.1:1/0", "redis://127.0.0.1:nowhere", "ftp://x", "/proc/none/x.sqlite"]
)
def test_a_store_that_cannot_be_had_is_one_line(where: str) -> None:
    with pytest.raises(rc.OptionError, match="store"):
        open_store(where, shared=True)


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.sqlite").write_text("no database, but long enough to be looked at" * 100)
    with pytest.raises(rc.OptionError, match=r"x\.sqlite"):
        open_store(str(tmp_path / "x.sqlite"), shared=False)


def test_a_store_that_goes_away_is_told_and_survived(text_run: rc.Run, tmp_path: Path) -> None:
    """The store fails under a running server: steps are refused with 503, health and metrics go on."""
    from recurra.serve.settings import ServeSettings

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServeSettings, "shares_sessions", property(lambda settings: True))
        how: dict[str, Any] = {"port": 0, "store": str(tmp_path / "s.sqlite"), "background": True}
        with rc.serve(text_run, **how) as server, open_client(server.url) as client:
            id = new_session(client)
            patch.setattr(SQLiteStore, "load", _away)
            patch.setattr(SQLiteStore, "count", _away)
            answer = client.post(f"/v1/sessions/{id}/step", json={"inputs": "a"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
            assert client.get(f"/v1/sessions/{id}").status_code == 503
            assert client.get("/metrics").status_code == client.get("/healthz").status_code == 200
            patch.undo()
            patch.setattr(ServeSettings, "shares_sessions", property(lambda settings: True))
            assert step(client, id, "a")["steps"] == 1


def _away(*_: Any) -> Any:
    raise OSError("the store is away")
