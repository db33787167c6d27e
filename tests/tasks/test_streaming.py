"""Streams: in steps or at once the same bits, near to what the model computes, with states that go out and come in."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import recurra as rc
from recurra.models.heads import make_head

TEXT = "the cat sat on the mat. the dog sat on the log. "
WAVES = np.exp(np.sin(np.arange(200) / 8))
FEW: dict[str, Any] = {"progress": "none", "steps": 3, "hidden_size": 8}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[rc.Run, list[Any]]]:
    """Runs with some inputs of each."""
    place = tmp_path_factory.mktemp("runs")
    pieces = [[[60, 64], [62], []] * 4] * 3
    binary: dict[str, Any] = {"head": "bernoulli", "change": False}
    return {
        "text": (
            rc.train("text", [TEXT * 40] * 3, out=place / "a", batch_size=4, combine="none", **FEW),
            list("the dog sat"),
        ),
        "counted": (
            rc.train("text", [TEXT * 40] * 3, out=place / "h", batch_size=4, combine="baseline", **FEW),
            list("the dog sat"),
        ),
        "tomita": (rc.train("tomita", out=place / "b", **FEW), list("010011")),
        "forecast": (rc.train("forecast", WAVES, out=place / "c", log=True, **FEW), [0.5, 1.5, None, 2.0]),
        "mixture": (rc.train("forecast", WAVES, out=place / "d", head="mixture", **FEW), [[0.5], [1.5], [2.5]]),
        "quantiles": (rc.train("forecast", WAVES, out=place / "e", head="quantiles", **FEW), [0.5, 1.5, 2.5]),
        "binary": (rc.train("forecast", (WAVES > 1) * 1.0, out=place / "f", **binary, **FEW), [1, 0, 1]),
        "piano-roll": (
            rc.train("piano-roll", {"train": pieces, "valid": pieces, "test": pieces}, out=place / "g", **FEW),
            [[60], [], [62, 64]],
        ),
    }


NAMES = ("text", "counted", "tomita", "forecast", "mixture", "quantiles", "binary", "piano-roll")


def whole(inputs: list[Any]) -> Any:
    return "".join(inputs) if isinstance(inputs[0], str) else inputs


@pytest.mark.parametrize("name", NAMES)
def test_steps_and_chunks_give_the_same_bits(name: str, runs: dict[str, Any]) -> None:
    run, inputs = runs[name]
    at_once, in_steps = run.stream(), run.stream()
    expected = at_once.step(whole(inputs), each=True)
    found = [in_steps.step(one if isinstance(one, str) else [one]) for one in inputs]
    assert found == expected
    assert in_steps.state == at_once.state
    assert in_steps.steps == len(inputs)


@pytest.mark.parametrize("name", NAMES)
def test_a_state_goes_out_and_comes_in(name: str, runs: dict[str, Any]) -> None:
    run, inputs = runs[name]
    first, second = run.stream(), run.stream()
    first.step(whole(inputs))
    second.state = first.state
    assert second.step(whole(inputs)) == first.step(whole(inputs))


def test_it_is_what_the_model_predicts(runs: dict[str, Any]) -> None:
    run, inputs = runs["text"]
    stream = run.stream()
    found = stream.step(whole(inputs), top=1000, each=True)
    line = torch.tensor([*run.task.opening([]), *run.task.tokenizer.encode(whole(inputs)).tolist()])
    with torch.no_grad():
        logits, final = run.model(line[None])
    chances = logits[0, 1:].double().softmax(-1)
    for row, one in zip(chances, found, strict=True):
        names = [run.task.token_names[k] for k in row.argsort(descending=True)]
        by_name = dict(zip(one["tokens"], one["probabilities"], strict=True))
        torch.testing.assert_close(torch.tensor([by_name[n] for n in names]).double(), row.sort(descending=True).values)
    assert stream.state["0.h"] == final[0][0][0][0].tolist()  # the recurrent layers are the model's own: the same bits


@pytest.mark.parametrize("head", ["gaussian", "mixture", "quantiles"])
def test_quantiles_are_those_of_draws(head: str) -> None:
    made = make_head(head, 2, 3)
    predicted = torch.randn(2 * made.numbers, generator=torch.Generator().manual_seed(1))
    levels = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    noise = torch.rand(20_000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    drawn = made.draw(predicted.expand(20_000, -1), noise).double()
    found = made.quantiles(predicted, levels)
    below = (drawn[:, None] <= found).double().mean(0)
    assert (below - levels[:, None]).abs().max() < 0.015


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("text", ""),
        ("text", []),
        ("text", [10**9]),
        ("text", [True]),
        ("text", 5),
        ("text", "€"),
        ("text", None),
        ("text", {}),
        ("tomita", "2"),
        ("tomita", [2]),
        ("forecast", []),
        ("forecast", "1"),
        ("forecast", [[1, 2]]),
        ("forecast", [float("nan")]),
        ("forecast", [1e999]),
        ("forecast", [10**400]),
        ("binary", [2]),
        ("piano-roll", [60]),
        ("piano-roll", [[20]]),
    ],
)
def test_what_cannot_be_read_is_refused_and_changes_nothing(name: str, inputs: Any, runs: dict[str, Any]) -> None:
    stream = runs[name][0].stream()
    before = stream.state
    with pytest.raises(rc.DataError):
        stream.step(inputs)
    assert stream.state == before


@pytest.mark.parametrize("state", [None, {}, {"0.h": [1.0]}, {"0.h": [float("inf")] * 8, "0.c": [0.0] * 8}, {"0.h": 3}])
def test_a_state_that_is_none_is_refused(state: Any, runs: dict[str, Any]) -> None:
    stream = runs["text"][0].stream()
    with pytest.raises(rc.DataError, match="state"):
        stream.state = state


def test_who_has_no_stream_says_why(tmp_path: Path) -> None:
    with pytest.raises(rc.OptionError, match="stream is for a task that reads a stream"):
        rc.train("feedforward", out=tmp_path / "a", progress="none", steps=2).stream()
    changes = rc.train("forecast", WAVES, out=tmp_path / "b", difference=1, **FEW)
    with pytest.raises(rc.OptionError, match=r"data\.difference"):
        changes.stream()
