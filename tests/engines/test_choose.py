"""`auto` takes the first engine that says yes, and can say why; a name is never replaced."""

import pytest
import torch

from recurra import CATALOGUE, EngineError, OptionError, Recurrent
from recurra.engines.choose import ENGINES, choose, explain
from recurra.types import Shape
from tests.helpers import B, D, H

CPU = torch.device("cpu")
SHAPE = Shape(B, 128, D, H)


@pytest.mark.parametrize("name", CATALOGUE)
def test_auto_takes_the_first_engine_that_says_yes(name):
    cell = CATALOGUE[name]
    yes = [engine for engine in ENGINES.values() if engine.supports(cell, CPU, torch.float32, SHAPE)]
    assert choose("auto", cell, CPU, torch.float32, SHAPE) is yes[0]


def test_every_engine_is_called_by_its_name_and_the_plain_loop_is_asked_last():
    assert all(engine.name == name for name, engine in ENGINES.items())
    assert list(ENGINES)[-1] == "eager"


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_reason_is_given_with_every_no(name):
    answers = explain("auto", CATALOGUE[name], CPU, torch.float32, SHAPE).answers
    assert list(answers) == list(ENGINES)
    for answer in answers.values():
        assert bool(answer) != bool(answer.reason)


def test_explain_says_who_runs_and_what_the_others_say():
    choice = Recurrent("gru", D, H).explain(batch_size=B, length=128)
    lines = str(choice).splitlines()
    assert lines[0] == f"{choice.engine.name} runs this (chosen by auto)."
    assert len(lines) == 1 + len(ENGINES)
    assert lines[1 + list(ENGINES).index("vendor")].startswith("  vendor   cannot: torch has kernels for")
    assert lines[1 + list(ENGINES).index("eager")] == "  eager    can run it"


def test_explain_of_a_named_engine():
    assert str(Recurrent("lstm", D, H, engine="eager").explain()).startswith("eager runs this (asked for by name).")


def test_recording_may_change_the_choice():
    layer = Recurrent("lstm", D, H)
    assert layer.explain(record=True).engine.name != "vendor"
    x = torch.randn(B, 5, D)
    torch.testing.assert_close(layer(x, record=True).outputs, layer(x).outputs)


def test_a_named_engine_is_not_replaced():
    with pytest.raises(EngineError, match="'vendor' cannot run cell 'mingru'"):
        choose("vendor", CATALOGUE["mingru"], CPU, torch.float32, SHAPE)


@pytest.mark.parametrize(("asked", "meant"), [("eagre", "eager"), ("vender", "vendor"), ("atuo", "auto")])
def test_a_misspelt_engine_suggests_the_nearest(asked, meant):
    with pytest.raises(OptionError, match=f"engine '{asked}' does not exist. Did you mean '{meant}'") as caught:
        Recurrent("lstm", D, H, engine=asked)
    assert all(name in str(caught.value) for name in ENGINES)
