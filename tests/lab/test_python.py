"""The lines under "as Python" run, and give the numbers that the page shows."""

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

TEXT = "the cat sat."


def lines_of(lab: Any, path: str, body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the lab answers, and the names that its lines leave when they are run."""
    answer = httpx.post(f"{lab.base}api/{path}", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    found, names = answer.json(), dict[str, Any]()
    exec(compile(found["python"], path, "exec"), names)
    return found, names


def test_curves(lab: Any, runs: Path) -> None:
    answer = httpx.get(
        f"{lab.base}api/runs/curves", params={"run": ["text", "wave"], "metric": "loss", "points": 7}
    ).json()
    names: dict[str, Any] = {}
    exec(answer["python"], names)
    assert names["curve"].mean.tolist() == answer["curves"]["wave"]["mean"]
    assert len(answer["curves"]["text"]["steps"]) == 7


def test_through_time(lab: Any, runs: Path) -> None:
    asked = {"run": "text", "text": TEXT}
    found, names = lines_of(lab, "time/read", asked)
    assert names["found"].tokens == found["tokens"]
    values = httpx.post(f"{lab.base}api/time/values", json=asked | {"series": "0.r"}).content
    shape = found["shapes"]["0.r"]
    sent = np.frombuffer(values, dtype="<f4").reshape(shape[1], shape[0])
    assert np.array_equal(sent, names["found"].of("0.r").numpy().T)


def test_a_unit(lab: Any) -> None:
    found, names = lines_of(lab, "time/unit", {"run": "text", "text": TEXT, "unit": "0.h.1"})
    assert [each.token for each in names["highest"]] == [each["token"] for each in found["highest"]]


def test_what_units_follow(lab: Any) -> None:
    found, names = lines_of(lab, "time/tracks", {"run": "text", "unit": "0.h.1"})
    assert {each.label for each in names["study"].findings} == {each["label"] for each in found["rows"]}


def test_the_cell_at_work(lab: Any, capsys: pytest.CaptureFixture[str]) -> None:
    found, names = lines_of(lab, "time/step", {"run": "text-lstm", "text": TEXT, "step": 3})
    row = names["run"].table(TEXT).rows[3]
    assert np.allclose(found["row"]["next_state"]["c"], row.next_state["c"])
    assert "weighted vector" in capsys.readouterr().out


def test_translations_and_forecasts(lab: Any) -> None:
    found, names = lines_of(lab, "generate/translate", {"run": "dates", "text": "1 May 1990", "beam": 2})
    assert names["found"].text == found["translations"][0]["text"]
    assert np.allclose(np.array(found["attention"]["weights"]).sum(1), 1, atol=1e-5)
    found, names = lines_of(lab, "generate/forecast", {"run": "wave", "steps": 5})
    assert names["found"].predictions.tolist() == found["values"]


def test_a_sample(lab: Any, capsys: pytest.CaptureFixture[str]) -> None:
    body = {"run": "text", "prime": "the", "length": 20, "seed": 4, "temperature": 0.5}
    events = httpx.post(f"{lab.base}api/generate/sample", json=body).text.split("\n\n")
    import json

    parsed = [json.loads(each.removeprefix("data: ")) for each in events if each]
    exec(parsed[-1]["python"], {})
    assert capsys.readouterr().out == "the" + "".join(each.get("text", "") for each in parsed) + "\n"


def test_scores(lab: Any) -> None:
    found, names = lines_of(lab, "runs/evaluate", {"run": "text"})
    assert names["run"].kept_scores().scores.keys() == found["scores"].keys()
