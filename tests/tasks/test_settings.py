"""Recipes are read strictly: every key is known, every value has its type, and an error names both."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest

from recurra.errors import OptionError
from recurra.tasks.settings import declarations, describe, from_dict, override, setting, to_dict


@dataclass(frozen=True)
class Data:
    path: str = setting("", "the text to learn from")
    part: str | None = setting(None, "a part of it")


@dataclass(frozen=True)
class Training:
    steps: int = setting(100, "how many updates")
    rate: float = setting(1e-2, "the learning rate")
    clip: float | None = setting(1.0, "the largest norm")
    limit: int | None = setting(None, "at most so many")
    betas: tuple[float, ...] = setting((0.9, 0.999), "two decays")
    sizes: tuple[int, ...] | None = setting(None, "sizes")
    truncation: str = setting("none", "where to cut")
    average: bool = setting(False, "whether to average")

    def check(self) -> None:
        if self.steps < 0:
            raise OptionError(f"training.steps={self.steps}: expected 0 or more.")


@dataclass(frozen=True)
class Settings:
    data: Data = Data()
    training: Training = Training()
    seed: int = setting(0, "where randomness starts")
    plain: int = 5

    def check(self) -> None:
        if self.seed > self.training.steps:
            raise OptionError(f"seed={self.seed}: expected at most training.steps={self.training.steps}.")


def test_nothing_asked_changes_nothing():
    assert override(Settings(), []) == Settings()


@pytest.mark.parametrize(
    ("assignment", "group", "name", "value"),
    [
        ("seed=7", None, "seed", 7),
        (" seed = 7 ", None, "seed", 7),
        ("training.steps=1_000", "training", "steps", 1000),
        ("training.steps=1e5", "training", "steps", 100_000),
        ("training.steps=2E+3", "training", "steps", 2000),
        ("training.rate=1e-3", "training", "rate", 1e-3),
        ("training.rate=1", "training", "rate", 1.0),
        ("training.rate=1_000.5", "training", "rate", 1000.5),
        ("training.clip=none", "training", "clip", None),
        ("training.clip=None", "training", "clip", None),
        ("training.clip=.5", "training", "clip", 0.5),
        ("training.limit=3", "training", "limit", 3),
        ("training.limit=none", "training", "limit", None),
        ("training.betas=0.8,0.9", "training", "betas", (0.8, 0.9)),
        ("training.betas=(0.8, 0.9)", "training", "betas", (0.8, 0.9)),
        ("training.betas=[0.8]", "training", "betas", (0.8,)),
        ("training.betas=0.8,", "training", "betas", (0.8,)),
        ("training.betas=", "training", "betas", ()),
        ("training.sizes=1,2", "training", "sizes", (1, 2)),
        ("training.sizes=none", "training", "sizes", None),
        ("training.truncation=every:128", "training", "truncation", "every:128"),
        ("training.truncation=none", "training", "truncation", "none"),
        ("training.average=true", "training", "average", True),
        ("training.average=Yes", "training", "average", True),
        ("training.average=0", "training", "average", False),
        ("data.path=a=b=c.txt", "data", "path", "a=b=c.txt"),
        ("data.path= a b ", "data", "path", " a b "),
        ("data.path=", "data", "path", ""),
        ("data.part=none", "data", "part", None),
        ("data.part=1", "data", "part", "1"),
    ],
)
def test_an_override_is_read_by_the_type_of_its_field(assignment, group, name, value):
    start = replace(Settings(), training=replace(Training(), limit=9, average=True, sizes=(3,)), data=Data("p", "q"))
    if name == "average" and value:
        start = replace(start, training=replace(start.training, average=False))
    made = override(start, [assignment])
    found = getattr(getattr(made, group) if group else made, name)
    assert found == value
    assert type(found) is type(value)
    inner = replace(getattr(start, group), **{name: value}) if group else None
    assert made == (replace(start, **{group: inner}) if group else replace(start, **{name: value}))


def test_overrides_add_up_and_the_last_counts():
    made = override(Settings(), ["seed=1", "training.steps=5", "training.rate=2", "seed=2"])
    assert made == Settings(seed=2, training=Training(steps=5, rate=2.0))


KNOWN = (
    "Known: data.part, data.path, plain, seed, training.average, training.betas, training.clip, training.limit, "
    "training.rate, training.sizes, training.steps, training.truncation."
)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("training.step=5", f"setting 'training.step' does not exist. Did you mean 'training.steps'? {KNOWN}"),
        ("steps=5", f"setting 'steps' does not exist. Did you mean 'training.steps'? {KNOWN}"),
        ("clip=5", f"setting 'clip' does not exist. Did you mean 'training.clip'? {KNOWN}"),
        ("=5", f"setting '' does not exist. {KNOWN}"),
        ("trainig.rat=5", f"setting 'trainig.rat' does not exist. Did you mean 'training.rate'? {KNOWN}"),
        ("training.seed=5", f"setting 'training.seed' does not exist. Did you mean 'seed'? {KNOWN}"),
        ("training.noise=5", f"setting 'training.noise' does not exist. {KNOWN}"),
        ("seed", "'seed' is not a setting. Write KEY=VALUE, as in data.path=VALUE."),
        ("data=x", "'data' is a group of settings. Set one of them: data.path, data.part."),
        ("training.steps=ten", "training.steps=ten: expected a whole number; got 'ten'."),
        ("training.steps=1.5", "training.steps=1.5: expected a whole number; got '1.5'."),
        ("training.steps=1e-3", "training.steps=1e-3: expected a whole number; got '1e-3'."),
        ("training.steps=1e99", "training.steps=1e99: expected a whole number; got '1e99'."),
        ("training.steps=none", "training.steps=none: expected a whole number; got 'none'."),
        ("training.steps=", "training.steps=: expected a whole number; got ''."),
        ("training.rate=fast", "training.rate=fast: expected a finite number; got 'fast'."),
        ("training.rate=nan", "training.rate=nan: expected a finite number; got 'nan'."),
        ("training.clip=inf", "training.clip=inf: expected a finite number, or none; got 'inf'."),
        ("training.limit=x=3", "training.limit=x=3: expected a whole number, or none; got 'x=3'."),
        ("training.average=maybe", "training.average=maybe: expected true or false; got 'maybe'."),
        (
            "training.betas=0.9,x",
            "training.betas=0.9,x: expected a finite number, or several with commas between them; got '0.9,x'.",
        ),
        ("training.steps=-1", "training.steps=-1: expected 0 or more."),
        ("seed=101", "seed=101: expected at most training.steps=100."),
    ],
)
def test_what_cannot_be_read_is_named(assignment, message):
    with pytest.raises(OptionError) as caught:
        override(Settings(), [assignment])
    assert str(caught.value) == message


def test_checks_see_the_whole_of_what_was_asked():
    assert override(Settings(), ["seed=101", "training.steps=200"]).seed == 101


def test_there_and_back_through_json():
    recipe = override(Settings(), ["training.betas=0.1,0.3", "training.clip=none", "data.path=é", "training.rate=0.1"])
    values = to_dict(recipe)
    assert values["training"]["betas"] == [0.1, 0.3]
    assert list(values) == ["data", "training", "seed", "plain"]
    made = from_dict(Settings, json.loads(json.dumps(values)))
    assert made == recipe
    assert type(made.training.betas) is tuple


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sed": 1}, f"setting 'sed' does not exist. Did you mean 'seed'? {KNOWN}"),
        (
            {"data": {"path": "", "part": None, "file": ""}},
            "setting 'data.file' does not exist. Known: data.part, data.path, ",
        ),
        ({"data": {"part": None}}, "the recipe lacks data.path. Add it."),
        ({"data": None}, "data=None: expected an object with the keys path, part."),
        ({"seed": ...}, "the recipe lacks seed. Add it."),
        ({"data": ...}, "the recipe lacks data.path, data.part. Add them."),
        ({"seed": 1.0}, "seed=1.0: expected a whole number; got float 1.0."),
        ({"seed": True}, "seed=True: expected a whole number; got bool True."),
        ({"seed": None}, "seed=None: expected a whole number; got NoneType None."),
        ({"data": {"path": 3, "part": None}}, "data.path=3: expected a text; got int 3."),
        ({"data": {"path": "", "part": 3}}, "data.part=3: expected a text, or none; got int 3."),
        ({"seed": 101}, "seed=101: expected at most training.steps=100."),
    ],
)
def test_a_dictionary_is_read_strictly(change, message):
    values = {key: value for key, value in {**to_dict(Settings()), **change}.items() if value is not ...}
    with pytest.raises(OptionError) as caught:
        from_dict(Settings, values)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "value"),
    [("rate", "1e-3"), ("rate", float("nan")), ("rate", 10**400), ("average", 1), ("betas", 0.9), ("betas", ["a"])],
)
def test_values_of_another_type_are_refused_by_name(name, value):
    values = to_dict(Settings())
    values["training"][name] = value
    with pytest.raises(OptionError, match=f"^training.{name}="):
        from_dict(Settings, values)


def test_a_whole_number_is_a_number():
    values = to_dict(Settings())
    values["training"]["rate"] = 1
    rate = from_dict(Settings, values).training.rate
    assert (rate, type(rate)) == (1.0, float)


def test_checks_run_on_what_is_read():
    values = to_dict(Settings())
    values["training"]["steps"] = -1
    with pytest.raises(OptionError, match=r"training\.steps=-1"):
        from_dict(Settings, values)


def test_what_is_not_an_object():
    with pytest.raises(OptionError, match="a recipe is an object with the keys data, training, seed, plain"):
        from_dict(Settings, [])


def test_every_setting_is_described():
    rows = describe(Settings(seed=4))
    assert rows[0] == ("data.path", "", "the text to learn from")
    assert ("training.betas", (0.9, 0.999), "two decays") in rows
    assert rows[-2:] == [("seed", 4, "where randomness starts"), ("plain", 5, "")]
    assert len(rows) == 12


@dataclass(frozen=True)
class Odd:
    choice: int | str = 3


@dataclass(frozen=True)
class Deep:
    recipe: Settings = Settings()


@pytest.mark.parametrize(("cls", "key"), [(Odd, "choice"), (Deep, "recipe.data")])
def test_a_recipe_that_cannot_be_read_says_so_at_once(cls, key):
    with pytest.raises(TypeError, match=f"^{key}: a setting is"):
        override(cls(), [])


def test_declarations_have_all_that_a_form_needs() -> None:
    from recurra.tasks.catalogue import RECIPES

    for recipe in RECIPES.values():
        made = declarations(recipe.settings)
        assert [(each.key, each.value, each.about) for each in made] == describe(recipe.settings)
        assert {each.kind for each in made} <= {"int", "float", "bool", "str"}
    found = {each.key: each for each in declarations(RECIPES["dates"].settings)}
    assert found["model.context"].choices is not None
    assert "attention" in found["model.context"].choices
    assert (found["data.max_symbols"].kind, found["data.max_symbols"].optional) == ("int", True)
    assert found["training.steps"].bounds["low"] is not None
    assert found["data.valid_path"].idle  # there is no file to hold a part of
