"""Fuzzed settings: `KEY=VALUE` for every declared setting of every recipe, by the code that the command line and Python use."""

import random
from collections.abc import Callable
from typing import Any

from recurra.tasks.catalogue import RECIPES, find_recipe
from recurra.tasks.settings import _declared, describe, from_dict, idle_settings, override, to_dict
from recurra.training.soundness import enough_memory
from tests.fuzz.mutations import NASTY

OBJECTS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, 10**400, -(10**400), 1.5, -0.0, 1e308, -1e308, 1e-320),
    *(float("nan"), float("inf"), float("-inf"), "", "auto", "\0", "\ud800", "\x1b[2J", "é" * 5000, b"bytes", 1j),
    *((), (1,), (0.5, "x"), [], [1, 2], [[1]], {}, {"a": 1}, {1}, range(3), object, lambda: 0, ...),
)
TEXTS = (
    *(
        "none",
        "every:8",
        "every:0",
        "every:-1",
        "every:99999999999999999999",
        "window:3",
        "window:",
        "every:1e3",
        "every:٣",
    ),
    *("ema:0.9", "ema:1.5", "ema:nan", "asgd:5", "asgd:-1", "scheduled:0.5", "scheduled:nan", "free", "teacher"),
    *("lstm", "gru(", "gru)", "leaky(alpha=0.5)", "leaky(alpha=__import__('os'))", "leaky(alpha=1e400)", "skip(d=-1)"),
    *(
        "skip(d=10**9)",
        "elman(activation=relu)",
        "elman(activation=[])",
        "zoneout(lstm)",
        "a.py:b",
        ":",
        "/dev/null:x",
        "a.py:",
    ),
    *("cpu", "cuda", "cuda:99", "meta", "mps", "bfloat16", "float16", "fused", "eager", "vendor"),
    *(
        "0.5",
        "0.999999999999",
        "1",
        "2",
        "7",
        "64",
        "1e6",
        "1e9",
        "1e18",
        "9223372036854775807",
        "-9223372036854775808",
    ),
    *("(1,2,3)", "[0.5,]", ",,,", "(((", "0.1,nan", "1,2,3," * 2000),
)
KEYS = (
    "",
    " ",
    "=",
    ".",
    "..",
    "model",
    "model.",
    ".cell",
    "training.stepz",
    "lr",
    "name",
    "data.path.x",
    "é",
    "a" * 9000,
    "\0",
)


SOUND: dict[type, tuple[str, ...]] = {
    bool: ("true", "no", "on", "0", "True", "FALSE"),
    int: ("0", "1", "2", "3", "7", "-1", "1e3", "100", "1e18", "9223372036854775807", "9223372036854775808"),
    float: ("0", "0.1", "0.5", "0.999", "1", "1e-9", "1e3", "-0.1", "1e300", "1e-300", "-1e300"),
    str: TEXTS,
}
"""Values that a setting of this type may well take."""


def value(draw: random.Random, one: Any, default: Any) -> str:
    """A value for a setting: one of its choices, one of its type, or a nasty one."""
    choices = one.metadata.get("choices")
    if choices and draw.random() < 0.6:
        return str(draw.choice(choices))
    if draw.random() < 0.6:
        return draw.choice(SOUND.get(type(default), (*TEXTS, *SOUND[int], *SOUND[float])))
    return draw.choice(draw.choice((NASTY, TEXTS)))


def assign(draw: random.Random, progress: Callable[[], None] = lambda: None) -> None:
    """One to three settings of a recipe, as texts or as objects; what is accepted is kept and read again."""
    recipe = RECIPES[draw.choice(list(RECIPES))]
    settings = recipe.settings
    defaults = {key: default for key, default, _ in describe(settings)}
    declared, keys = dict(_declared(type(settings))), list(defaults)
    made = [draw.choice(keys) if draw.random() < 0.95 else draw.choice(KEYS) for _ in range(draw.choice((1, 1, 2, 3)))]
    changes: Any = [
        f"{key}={value(draw, declared[key], defaults[key]) if key in declared else draw.choice(NASTY)}" for key in made
    ]
    match draw.randrange(12):
        case 0:
            changes = {key: draw.choice(OBJECTS) for key in made}
        case 1:
            changes = {key.rpartition(".")[2]: draw.choice((*OBJECTS, *TEXTS)) for key in made}
        case 2:
            changes = [draw.choice(("=", "", "x", "==", "a=b=c", f"{made[0]}", f"{made[0]}==", f" {made[0]} = 3 "))]
        case 3:
            find_recipe(draw.choice((*NASTY, "txt", "Text", recipe.name)))
            return
        case 4:
            saved = to_dict(settings)
            inside = draw.choice([saved, *(part for part in saved.values() if isinstance(part, dict))])
            inside[draw.choice([*inside, "new"])] = draw.choice((*OBJECTS, *TEXTS))
            from_dict(type(settings), saved)
            return
        case 5:
            train(draw, progress)
            return
    accepted = override(settings, changes)
    idle_settings(accepted)
    assert from_dict(type(settings), to_dict(accepted)) == accepted
    prepare(recipe, accepted)


SMALL: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("tomita", "dyck"), ("data.strings=60", "data.test_strings=10", "data.test_length=10")),
    **dict.fromkeys(("dates", "addition"), ("data.count=60",)),
    **dict.fromkeys(("washing-machine-log", "washing-machine-hidden"), ("data.cases=10",)),
    **dict.fromkeys(("flip-flop", "parity", "long-memory", "washing-machine", "output-recurrence"), ()),
    "signal-and-noise": ("data.sequences=10", "data.test=10"),
    "feedforward": ("data.count=60",),
    "tree": ("data.count=60", "data.depth=2"),
    "reservoir": ("data.length=600", "training.washout=10"),
    "forecast": ("data.length=600", "backtest.samples=2"),
}
"""Recipes of synthetic data, and settings under which a few steps take milliseconds."""
FEW = ("model.hidden_size=3", "training.batch_size=4", "training.steps=3", "training.validate_every=2")


def train(draw: random.Random, progress: Callable[[], None]) -> None:
    """One or two settings that may be accepted, and then a few events of the training that they ask for: each is progress that
    people see."""
    name = draw.choice(list(SMALL))
    settings = RECIPES[name].settings
    defaults = {key: default for key, default, _ in describe(settings)}
    declared = dict(_declared(type(settings)))
    small = [*SMALL[name], *(each for each in FEW if each.partition("=")[0] in declared)]
    small += ["engine=eager"] if name not in ("tree", "feedforward") else []
    keys = draw.sample([key for key in declared if key not in ("name", "data.path", "device")], draw.choice((1, 1, 2)))
    changes = [*small, *(f"{key}={value(draw, declared[key], defaults[key])}" for key in keys)]
    with enough_memory():
        for _event, _ in zip(RECIPES[name].configure(changes).trainer().events(), range(4), strict=False):
            progress()


def prepare(recipe: Any, accepted: Any) -> None:
    """What comes before any data is read: the task, and its cell."""
    from recurra.cells.catalogue import find_cell

    recipe.task(accepted)
    cell = getattr(accepted.model, "cell", None)
    if cell is not None:
        find_cell(cell)
