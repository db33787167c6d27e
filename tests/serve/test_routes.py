"""The routes: verbs as `Run` answers them, health, keys, limits, and one shape of error."""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import recurra as rc
from tests.serve.conftest import new_session, open_client, step

KEY = "a-key-of-sixteen"


@pytest.fixture(scope="module")
def all_of(runs: list[rc.Run]) -> Iterator[httpx.Client]:
    """A client of a server of all models."""
    with rc.serve(*runs, port=0, store="memory", background=True) as server, open_client(server.url) as made:
        yield made


def test_models_say_what_they_can(all_of: httpx.Client) -> None:
    found = {each["name"]: each for each in all_of.get("/v1/models").json()["models"]}
    verbs = {name: (each["verbs"], each["sessions"]) for name, each in found.items()}
    assert verbs == {
        "text": (["generate", "score"], True),
        "tomita": ([], True),
        "series": (["forecast"], True),
        "walks": (["predict"], False),
        "dates": (["translate"], False),
    }
    assert found["text"]["exact"] is True


def test_health(all_of: httpx.Client) -> None:
    assert all_of.get("/healthz").json() == {"status": "ok"}
    assert all_of.get("/readyz").json()["status"] == "ready"
    told = all_of.get("/openapi.json").json()
    assert {"/v1/sessions/{id}/step", "/v1/generate", "/v1/steps"} <= set(told["paths"])
    assert 'recurra_requests_total{route="/healthz",status="200"}' in all_of.get("/metrics").text


def test_verbs_answer_as_the_run_does(all_of: httpx.Client, runs: list[rc.Run]) -> None:
    text, _, series, walks, dates = runs

    def ask(verb: str, **asked: Any) -> Any:
        answer = all_of.post(f"/v1/{verb}", json=asked)
        assert answer.status_code == 200, answer.text
        return answer.json()

    scored = ask("score", model="text", text="the cat")
    assert scored["log_probabilities"] == text.score("the cat", baselines=False).to_json()["log_probabilities"]
    known = [0.1 * k for k in range(40)]
    ahead = ask("forecast", model="series", steps=3, data=known)
    assert ahead == {"model": "series"} | series.forecast(3, known).to_json()
    walk = [[0.5, 1.0, 1.5], [3.0, 2.0, 1.0, 0.0]]
    assert ask("predict", model="walks", data=walk)["predictions"] == walks.predict(walk).to_json()["predictions"]
    source = dates.task.examples(dates.model).rows[0][0]  # type: ignore[attr-defined]
    found = ask("translate", model="dates", texts=[source], beam=2)["translations"][0]
    assert found == dates.translate_all([source], beam=2)[0].to_json()


def test_a_text_comes_as_it_is_written(all_of: httpx.Client, runs: list[rc.Run]) -> None:
    asked = {"model": "text", "prime": "the ", "length": 12, "seed": 3}
    with all_of.stream("POST", "/v1/generate", json=asked) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line]
    pieces = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert "".join(each.get("text", "") for each in pieces) == runs[0].sample("the ", 12, seed=3).text
    assert lines[-2:] == ["event: done", "data: {}"]
    refused = all_of.post("/v1/generate", json={"model": "text", "prime": "€"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "invalid")


def test_which_model_a_session_is_of(all_of: httpx.Client, runs: list[rc.Run]) -> None:
    id = new_session(all_of, model="series")
    assert step(all_of, id, [0.5, 0.25])["prediction"] == runs[2].stream().step([0.5, 0.25])
    for asked, code in (({}, "invalid"), ({"model": "nobody"}, "not_found"), ({"model": "walks"}, "invalid")):
        assert all_of.post("/v1/sessions", json=asked).json()["error"]["code"] == code
    assert "cannot forecast. It can: generate" in all_of.post("/v1/forecast", json={"model": "text"}).text


def test_no_file_of_the_server_can_be_named(all_of: httpx.Client) -> None:
    for verb, model in (("predict", "walks"), ("forecast", "series")):
        assert all_of.post(f"/v1/{verb}", json={"model": model, "data": "/etc/passwd"}).status_code == 422


def test_a_key_is_asked_for(text_run: rc.Run) -> None:
    how: dict[str, Any] = {"port": 0, "store": "memory", "api_key": KEY, "background": True}
    with rc.serve(text_run, **how) as server, open_client(server.url) as client:
        assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": KEY}, {"X-API-Key": KEY + "x"}):
            for path in ("/v1/models", "/metrics", "/openapi.json"):
                answer = client.get(path, headers=headers)
                assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
            answer = client.post(f"/v1/sessions/{'x' * 32}/step", json={"inputs": "a"}, headers=headers)
            assert answer.status_code == 401
        for headers in ({"Authorization": f"Bearer {KEY}"}, {"X-API-Key": KEY}):
            assert client.get("/v1/models", headers=headers).status_code == 200


def test_limits(text_run: rc.Run) -> None:
    how: dict[str, Any] = {"port": 0, "store": "memory", "background": True}
    with rc.serve(text_run, max_body=2000, max_steps=50, **how) as server, open_client(server.url) as client:
        id = new_session(client)
        assert client.post(f"/v1/sessions/{id}/step", json={"inputs": "a" * 3000}).status_code == 413
        assert client.post(f"/v1/sessions/{id}/step", json={"inputs": "a" * 51}).status_code == 422
        chunks = iter([b'{"inputs": "', *[b"a" * 500] * 8, b'"}'])  # without a length that could be looked at
        headers = {"Content-Type": "application/json"}
        assert client.post(f"/v1/sessions/{id}/step", content=chunks, headers=headers).status_code == 413
        assert client.get(f"/v1/sessions/{id}").json()["steps"] == 0
    with rc.serve(text_run, rate=5.0, **how) as server, open_client(server.url) as client:
        codes = [client.get("/v1/models").status_code for _ in range(12)]
        assert codes[:5] == [200] * 5
        assert codes.count(429) >= 5
        assert client.get("/healthz").status_code == 200
        time.sleep(0.3)
        assert client.get("/v1/models").status_code == 200


def test_a_page_from_elsewhere_cannot_ask(client: httpx.Client) -> None:
    """Neither under a name that leads here (DNS rebinding), nor with what a form can send."""
    assert client.get("/v1/models", headers={"Host": "evil.example"}).status_code == 400
    assert client.post("/v1/sessions", content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
    assert client.get("/v1/models", headers={"Host": "localhost:1"}).status_code == 200


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"prot": 1}, "port"), ({"port": -1}, "port"), ({"workers": 0}, "workers"), ({"ttl": 0.0}, "ttl"), ({"ttl": "1"}, "ttl"),
        ({"api_key": "short"}, "api_key"), ({"workers": 2, "store": "memory"}, "store"), ({"host": "256.1.1.1"}, "256"),
        ({"workers": 2, "background": True}, "workers"),
    ],
)  # fmt: skip
def test_options_are_checked(options: dict[str, Any], told: str, text_run: rc.Run) -> None:
    with pytest.raises(rc.OptionError, match=told):
        rc.serve(text_run, **{"port": 0} | options)


def test_what_cannot_be_served(text_run: rc.Run, tmp_path: Any) -> None:
    with pytest.raises(rc.OptionError, match="nothing to serve"):
        rc.serve(port=0, background=True)
    with pytest.raises(rc.OptionError, match="two runs are called text"):
        rc.serve(text_run, text_run, port=0, store="memory", background=True)
    with pytest.raises(rc.RunError):
        rc.serve(tmp_path / "none", port=0, background=True)
