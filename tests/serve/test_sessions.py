"""Sessions over HTTP: the numbers of the offline stream, whatever else is in the batch; kept, forgotten, restored."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import recurra as rc
from tests.serve.conftest import TEXT, new_session, open_client, step, store_of


def test_a_session_gives_what_the_stream_gives(client: httpx.Client, text_run: rc.Run) -> None:
    stream, id = text_run.stream(), new_session(client)
    for inputs in ("t", "he cat", [3, 4, 5], "s" * 300):
        assert step(client, id, inputs, top=3)["prediction"] == stream.step(inputs, top=3)
    told = client.get(f"/v1/sessions/{id}").json()
    assert told["state"] == stream.state
    assert told["steps"] == stream.steps == 310


def test_sessions_in_one_batch_do_not_touch_each_other(client: httpx.Client, text_run: rc.Run) -> None:
    """Forty sessions at once, with texts of different lengths: each gets the very numbers of its own stream."""
    texts = [(TEXT * 3)[k : k + 40] for k in range(40)]

    def read(k: int) -> list[Any]:
        id, found, at = new_session(client), [], 0
        while at < len(texts[k]):
            size = 1 + (k + at) % 5
            found += step(client, id, texts[k][at : at + size], each=True)["predictions"]
            at += size
        return found

    with ThreadPoolExecutor(40) as threads:
        found = list(threads.map(read, range(40)))
    assert found == [text_run.stream().step(text, each=True) for text in texts]
    batches = client.get("/metrics").text.splitlines()
    calls = next(float(line.split()[-1]) for line in batches if line.startswith("recurra_batch_size_count"))
    jobs = next(float(line.split()[-1]) for line in batches if line.startswith("recurra_batch_size_sum"))
    assert jobs > calls  # some were computed together, or this test shows nothing


def test_many_sessions_in_one_request(client: httpx.Client, text_run: rc.Run) -> None:
    ids = [new_session(client) for _ in range(3)]
    asked = [{"session": id, "inputs": "the "} for id in ids] + [{"session": ids[0], "inputs": "c"}]
    asked += [{"session": "x" * 32, "inputs": "a"}, {"session": ids[1], "inputs": "€"}]
    found = client.post("/v1/steps", json={"steps": asked}).json()["steps"]
    stream = text_run.stream()
    expected = stream.step("the ")
    assert [each["prediction"] for each in found[:3]] == [expected] * 3
    assert found[3]["prediction"] == stream.step("c")  # of one session in the order given
    assert [each["error"]["code"] for each in found[4:]] == ["not_found", "invalid"]


def test_a_state_is_restored(client: httpx.Client) -> None:
    id = new_session(client)
    step(client, id, "the cat")
    kept = client.get(f"/v1/sessions/{id}").json()
    expected = step(client, id, " sat")["prediction"]
    answer = client.put(f"/v1/sessions/{id}/state", json={"state": kept["state"], "steps": kept["steps"]})
    assert answer.json()["steps"] == 7
    assert step(client, id, " sat")["prediction"] == expected
    other = new_session(client, state=kept["state"], steps=7)
    assert step(client, other, " sat") == {"session": other, "steps": 11, "prediction": expected}


def test_a_deleted_session_is_gone(client: httpx.Client) -> None:
    id = new_session(client)
    assert client.delete(f"/v1/sessions/{id}").json() == {"deleted": id}
    for answer in (client.delete(f"/v1/sessions/{id}"), client.get(f"/v1/sessions/{id}")):
        assert answer.status_code == 404
    assert client.post(f"/v1/sessions/{id}/step", json={"inputs": "a"}).json()["error"]["code"] == "not_found"


def test_what_is_not_used_is_forgotten(text_run: rc.Run) -> None:
    how: dict[str, Any] = {"port": 0, "store": "memory", "ttl": 0.3, "save_every": 0.05, "background": True}
    with rc.serve(text_run, **how) as server, open_client(server.url) as client:
        old, used = new_session(client), new_session(client)
        for _ in range(6):
            time.sleep(0.1)
            step(client, used, "a")
        assert client.get(f"/v1/sessions/{old}").status_code == 404
        assert client.get(f"/v1/sessions/{used}").status_code == 200
        assert "recurra_sessions_expired 1.0" in client.get("/metrics").text


def test_beyond_the_limit_the_least_recently_used_goes(text_run: rc.Run) -> None:
    how: dict[str, Any] = {"port": 0, "store": "memory", "max_sessions": 2, "background": True}
    with rc.serve(text_run, **how) as server, open_client(server.url) as client:
        first, second = new_session(client), new_session(client)
        step(client, first, "a")
        third = new_session(client)
        known = [client.get(f"/v1/sessions/{id}").status_code for id in (first, second, third)]
    assert known == [200, 404, 200]


@pytest.mark.parametrize("workers", [1, 2])
def test_sessions_outlive_the_server(workers: int, text_run: rc.Run, tmp_path: Path, monkeypatch: Any) -> None:
    """With several workers each step goes through the store: here as one worker of two, which shares its file."""
    how: dict[str, Any] = {"port": 0, "store": store_of(tmp_path), "background": True}
    if workers > 1:
        from recurra.serve.settings import ServeSettings

        monkeypatch.setattr(ServeSettings, "shares_sessions", property(lambda settings: True))
    stream = text_run.stream()
    with rc.serve(text_run, **how) as server, open_client(server.url) as client:
        id, gone = new_session(client), new_session(client)
        assert step(client, id, "the cat")["prediction"] == stream.step("the cat")
        client.delete(f"/v1/sessions/{gone}")
    with rc.serve(text_run, **how) as server, open_client(server.url) as client:
        assert step(client, id, " sat") == {"session": id, "steps": 11, "prediction": stream.step(" sat")}
        assert client.get(f"/v1/sessions/{gone}").status_code == 404


def test_two_servers_do_not_share_a_file_unawares(text_run: rc.Run, tmp_path: Path) -> None:
    how: dict[str, Any] = {"port": 0, "store": store_of(tmp_path), "background": True}
    with rc.serve(text_run, **how), pytest.raises(rc.OptionError, match="in use by another server"):
        rc.serve(text_run, **how)


def test_two_workers_step_one_session_in_turn(text_run: rc.Run, tmp_path: Path, monkeypatch: Any) -> None:
    """Steps that two servers compute of one state at the same time: one is written, the other is computed again."""
    from recurra.serve.settings import ServeSettings

    monkeypatch.setattr(ServeSettings, "shares_sessions", property(lambda settings: True))
    how: dict[str, Any] = {"port": 0, "store": store_of(tmp_path), "background": True, "max_wait": 0.0}
    with rc.serve(text_run, **how) as one, rc.serve(text_run, **how) as other:
        clients = [open_client(one.url), open_client(other.url)]
        id = new_session(clients[0])
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda k: step(clients[k % 2], id, "a"), range(40)))
        told = clients[0].get(f"/v1/sessions/{id}").json()
        for each in clients:
            each.close()
    stream = text_run.stream()
    stream.step("a" * 40)
    assert (told["steps"], told["state"]) == (40, stream.state)
