"""Settings are frozen dataclasses, one level deep; this reads them strictly.

```python
@dataclass(frozen=True)
class Training:
    steps: int = setting(1000, "how many updates to make", low=1)
    clip_norm: float | None = setting(1.0, "scale gradients down to this norm; none: leave them", above=0)

@dataclass(frozen=True)
class Settings:
    training: Training = Training()
    seed: int = setting(0, "where every random number starts from")

override(Settings(), {"training.steps": 100_000, "clip_norm": None})      # from Python
override(Settings(), ["training.steps=1e5", "training.clip_norm=none"])   # from the command line
```

Ranges, choices and what makes a setting idle are declared with it (`recurra.types.setting`), and refusals follow from that. What
concerns several settings at once is a method `check(self) -> None` of their level, which raises an `OptionError`.
"""

from __future__ import annotations

import difflib
import functools
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from recurra.errors import OptionError, choose_from, one_line, quoted
from recurra.types import setting

P = ParamSpec("P")
R = TypeVar("R")

SYNONYMS = {
    **dict.fromkeys(("lr",), "training.learning_rate"),
    **dict.fromkeys(("weight_decay", "wd"), "training.l2"),
    **dict.fromkeys(("optimizer", "optim"), "training.optimiser"),
    **dict.fromkeys(("grad_clip", "clip", "max_norm"), "training.clip_norm"),
    **dict.fromkeys(("bptt", "tbptt", "seq_len", "block_size"), "training.truncation"),
    **dict.fromkeys(("epochs", "max_steps", "max_iters"), "training.steps"),
    **dict.fromkeys(("num_layers", "n_layer", "depth"), "model.layers"),
    **dict.fromkeys(("units", "hidden_dim", "n_hidden"), "model.hidden_size"),
    **dict.fromkeys(("vocab_size", "vocabulary_size"), "data.max_symbols"),
    **dict.fromkeys(("tokenizer", "tokenization"), "data.tokens"),
    **dict.fromkeys(("bs",), "training.batch_size"),
}
"""Other libraries' words for a setting, which an error answers with ours."""

LONGEST = 1500
"""Characters of a message: it may list all settings."""


def _in_one_line(function: Callable[P, R]) -> Callable[P, R]:
    """Settings may hold anything; a message about them is one printable line."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except OptionError as error:
            raise OptionError(one_line(str(error), LONGEST)) from error.__cause__

    return wrapped


_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_EXPECTED: dict[Any, str] = {
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    str: "a text",
}


@_in_one_line
def override(settings: R, changes: Iterable[str] | Mapping[str, Any]) -> R:
    """The settings with some of them replaced.

    - `changes`: from the command line `KEY=VALUE` each, the key dotted: `training.learning_rate=1e-3`; the last of several for
      one key counts. From Python values by key: dotted, or bare where only one group has such a setting.
    """
    given = read_changes(settings, changes)
    if "name" in given:
        raise OptionError("name says which recipe this is; it cannot be set. Name the run's folder with --out.")
    made = _replace(settings, given)
    check(made)
    for key, why in idle_settings(made).items():
        if key in given:
            raise OptionError(f"{key}={written(given[key])} would change nothing here: {why}. Leave it out.")
    return made


@_in_one_line
def read_changes(settings: Any, changes: Iterable[str] | Mapping[str, Any]) -> dict[str, Any]:
    """The values that are given, by dotted key; `changes` as for `override`."""
    kinds = _kinds(type(settings))
    given: dict[str, Any] = {}
    if isinstance(changes, Mapping):
        for name, value in changes.items():
            key = _find(name, kinds)
            given[key] = _accept(key, value, kinds[key])
        return given
    for assignment in changes:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise OptionError(
                f"{quoted(assignment)} is not a setting. Write KEY=VALUE, as in {next(iter(kinds))}=VALUE."
            )
        if (key := key.strip()) not in kinds:
            raise OptionError(_unknown(key, kinds))
        given[key] = _parse(key, text, kinds[key])
    return given


def _replace(settings: R, given: Mapping[str, Any]) -> R:
    levels: dict[str, dict[str, Any]] = {"": {}}
    for key, value in given.items():
        group, _, name = key.rpartition(".")
        levels.setdefault(group, {})[name] = value
    own = levels.pop("")
    inner = {group: replace(getattr(settings, group), **values) for group, values in levels.items()}
    made: R = replace(settings, **own, **inner)  # type: ignore[type-var]
    return made


def _find(name: str, kinds: Mapping[str, Any]) -> str:
    """The dotted key of a setting that may be named by its last part alone."""
    if name in kinds:
        return name
    ends = [key for key in kinds if key.rpartition(".")[2] == name]
    if len(ends) > 1:
        raise OptionError(
            f"{quoted(name)} is a setting of several groups: {', '.join(ends)}. Say which, as {{{ends[0]!r}: …}}."
        )
    if not ends:
        raise OptionError(_unknown(name, kinds))
    return ends[0]


def to_dict(recipe: Any) -> dict[str, Any]:
    """The recipe as JSON holds it: groups are objects, tuples are lists."""
    made = {}
    for part in fields(recipe):
        value = getattr(recipe, part.name)
        made[part.name] = to_dict(value) if is_dataclass(value) else list(value) if isinstance(value, tuple) else value
    return made


@_in_one_line
def from_dict(cls: type[R], values: dict[str, Any]) -> R:
    """The recipe that `to_dict` was given. Unknown keys, missing keys and values of another type are refused by name."""
    flat = dict(_flatten(cls, values))
    kinds = _kinds(cls)
    for key in flat:
        if key not in kinds:
            raise OptionError(_unknown(key, kinds))
    declared = dict(_declared(cls))
    for key, one in declared.items():
        if key not in flat and one.metadata.get("added"):
            flat[key] = one.default
    missing = [key for key in kinds if key not in flat]
    if missing:
        raise OptionError(f"the recipe lacks {', '.join(missing)}. Add {'it' if len(missing) == 1 else 'them'}.")
    levels: dict[str, dict[str, Any]] = {group: {} for group in ("", *_groups(cls))}
    for key, kind in kinds.items():
        group, _, name = key.rpartition(".")
        levels[group][name] = _accept(key, flat[key], kind)
    own = levels.pop("")
    made = cls(**own, **{group: _groups(cls)[group](**inner) for group, inner in levels.items()})
    check(made)
    return made


def describe(recipe: Any) -> list[tuple[str, Any, str]]:
    """Every setting in order: its dotted key, its value, and one line about it."""
    rows: list[tuple[str, Any, str]] = []
    for part in fields(recipe):
        value = getattr(recipe, part.name)
        if is_dataclass(value):
            rows += [(f"{part.name}.{key}", inner, about) for key, inner, about in describe(value)]
        else:
            rows.append((part.name, value, part.metadata.get("about", "")))
    return rows


@dataclass(frozen=True)
class Declared:
    """A setting as it was declared, and what it is now: all that a form needs.

    - `kind`: int, float, bool or str; `several`: a tuple of them; `optional`: it may be none.
    - `idle`: why it has no effect beside the others; `None` if it has one.
    """

    key: str
    value: Any
    about: str
    kind: str
    several: bool
    optional: bool
    choices: tuple[str, ...] | None
    bounds: dict[str, float | None]
    idle: str | None


def declarations(settings: Any) -> list[Declared]:
    """Every setting in order, as it was declared."""
    kinds, idle, made = _kinds(type(settings)), idle_settings(settings), []
    for key, one in _declared(type(settings)):
        bare, optional = _split(kinds[key])
        item, rules = _item(bare), one.metadata
        kind = (item or bare).__name__
        choices, bounds = rules.get("choices"), rules.get("bounds", {})
        value, about = _get(settings, key), rules.get("about", "")
        made.append(Declared(key, value, about, kind, item is not None, optional, choices, dict(bounds), idle.get(key)))
    return made


def _hints(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {part.name: hints[part.name] for part in fields(cls)}


def _groups(cls: type) -> dict[str, Any]:
    """The fields that are dataclasses themselves, with their classes."""
    return {name: kind for name, kind in _hints(cls).items() if is_dataclass(kind)}


def _kinds(cls: type) -> dict[str, Any]:
    """The type of every setting, by its dotted key."""
    kinds: dict[str, Any] = {}
    groups = _groups(cls)
    for name, kind in _hints(cls).items():
        kinds |= (
            {f"{name}.{key}": inner for key, inner in _hints(groups[name]).items()} if name in groups else {name: kind}
        )
    for key, kind in kinds.items():
        bare, _ = _split(kind)
        if (_item(bare) or bare) not in _EXPECTED:
            raise TypeError(
                f"{key}: a setting is an int, float, bool, str, tuple[X, ...] of one, or one or None; got {kind}."
            )
    return kinds


def _flatten(cls: type, values: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(values, dict):
        raise OptionError(f"a recipe is an object with the keys {', '.join(_hints(cls))}; found {quoted(values)}.")
    for name, value in values.items():
        inner = _groups(cls).get(name)
        if inner is None:
            yield str(name), value
        elif not isinstance(value, dict):
            raise OptionError(f"{name}={quoted(value)}: expected an object with the keys {', '.join(_hints(inner))}.")
        else:
            yield from ((f"{name}.{key}", found) for key, found in value.items())


def _unknown(key: str, kinds: Iterable[str]) -> str:
    inside = [known for known in kinds if known.startswith(f"{key}.")]
    if inside:
        return f"{quoted(key)} is a group of settings. Set one of them: {', '.join(inside)}."
    group, _, name = key[:100].rpartition(".")

    def likeness(known: str) -> tuple[float, bool]:
        """Of the names alone, since a group that is the same makes any two settings alike."""
        other, _, end = known.rpartition(".")
        return difflib.SequenceMatcher(None, name, end).ratio(), group == other

    best = next((key for key in kinds if key == SYNONYMS.get(name)), None)
    if best is None:
        closest = max(kinds, key=likeness)
        best = closest if likeness(closest)[0] >= 0.6 else None
    guess = f" Did you mean {best!r}?" if best is not None else ""
    return f"setting {quoted(key)} does not exist.{guess} Known: {', '.join(sorted(kinds))}."


def check(settings: Any) -> None:
    """Refuse what the declarations, and the levels' own checks, do not allow: the groups before the whole."""
    for key, one in _declared(type(settings)):
        value, rules = _get(settings, key), one.metadata
        if value is None or "bounds" not in rules:
            continue
        if rules["choices"] is not None:
            choose_from(key, value, rules["choices"])
        if rules["read"] is not None:
            rules["read"](value)
        outside = _outside(value, **rules["bounds"])
        if outside:
            raise OptionError(f"{key} must {outside}; got {written(value)}.")
    for level in (*(getattr(settings, group) for group in _groups(type(settings))), settings):
        if callable(getattr(level, "check", None)):
            level.check()


def _outside(
    value: Any, low: float | None, above: float | None, high: float | None, below: float | None, most: int | None
) -> str:
    """What a value that is out of bounds must do; nothing for one that is not."""
    least, highest = low if low is not None else above, high if high is not None else below
    values = value if isinstance(value, tuple) else (value,)
    if most is not None and any(each > most for each in values):
        return f"be at most {most:,}"
    if all(
        (low is None or each >= low)
        and (above is None or each > above)
        and (high is None or each <= high)
        and (below is None or each < below)
        for each in values
    ):
        return ""
    if least is not None and highest is not None:
        return (
            f"lie in [{low:g}, {below:g})"
            if low is not None and below is not None
            else f"lie between {least:g} and {highest:g}"
        )
    if above is not None:
        return "be positive" if above == 0 else f"be above {above:g}"
    if low is not None:
        return "not be negative" if low == 0 else f"be at least {low:g}"
    return f"be at most {high:g}" if high is not None else f"be below {below:g}"


def idle_settings(settings: Any) -> dict[str, str]:
    """Settings that have no effect beside the others, each with the reason."""
    found = {}
    for key, one in _declared(type(settings)):
        rule = one.metadata.get("idle")
        why = rule(settings) if rule is not None else None
        if why:
            found[key] = why
    further = getattr(settings, "idle", None)
    return found | (further() if callable(further) else {})


def _declared(cls: type) -> Iterator[tuple[str, Field[Any]]]:
    """Every setting by its dotted key, as it was declared."""
    groups = _groups(cls)
    for part in fields(cls):
        if part.name in groups:
            yield from ((f"{part.name}.{key}", inner) for key, inner in _declared(groups[part.name]))
        else:
            yield part.name, part


def _get(settings: Any, key: str) -> Any:
    for name in key.split("."):
        settings = getattr(settings, name)
    return settings


def written(value: Any) -> str:
    """A value as it is typed on the command line."""
    if isinstance(value, tuple):
        return ",".join(map(written, value))
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else _shown(value)


def _shown(value: Any) -> str:
    """A value in a message: as it was typed, or quoted where it is long or cannot be printed."""
    try:
        text = str(value)
    except ValueError:  # an integer of thousands of digits
        return quoted(value)
    return text if len(text) <= 60 and text.isprintable() else quoted(text)


def _split(kind: Any) -> tuple[Any, bool]:
    """A type without its `None`, and whether it had one."""
    if get_origin(kind) not in (Union, UnionType):
        return kind, False
    rest = [option for option in get_args(kind) if option is not NoneType]
    return (rest[0], True) if len(rest) == 1 else (kind, False)


def _item(kind: Any) -> Any:
    """The type of the items of `tuple[X, ...]`; `None` for any other type."""
    args = get_args(kind)
    return args[0] if get_origin(kind) is tuple and args[1:] == (Ellipsis,) else None


def _expected(kind: Any) -> str:
    bare, optional = _split(kind)
    item = _item(bare)
    said = _EXPECTED[bare] if item is None else f"{_EXPECTED[item]}, or several with commas between them"
    return f"{said}, or none" if optional else said


def _parse(key: str, text: str, kind: Any) -> Any:
    """The value that a text from the command line stands for."""
    bare, optional = _split(kind)
    if optional and text.strip().lower() == "none":
        return None
    item = _item(bare)
    try:
        if item is None:
            return _read(text, bare)
        inside = text.strip().removeprefix("(").removesuffix(")").removeprefix("[").removesuffix("]").strip()
        return tuple(_read(part.strip(), item) for part in inside.removesuffix(",").split(",")) if inside else ()
    except ValueError:
        raise OptionError(f"{key}={_shown(text)}: expected {_expected(kind)}; got {quoted(text)}.") from None


def _read(text: str, kind: Any) -> Any:
    if kind is str:
        return text
    if kind is bool:
        word = text.strip().lower()
        if word in _YES + _NO:
            return word in _YES
        raise ValueError(text)
    if kind is int:
        if re.fullmatch(r"\s*[+-]?\d+e\+?\d+\s*", text, re.IGNORECASE) and abs(float(text)) < 2**53:
            return int(float(text))
        return int(text)
    value = float(text)
    if not math.isfinite(value):  # JSON has no word for it, and none is clearer
        raise ValueError(text)
    return value


def _accept(key: str, value: Any, kind: Any) -> Any:
    """A value from JSON, if it is of the field's type."""
    bare, optional = _split(kind)
    item = _item(bare)
    if value is None and optional:
        return None
    if item is not None and isinstance(value, (list, tuple)):
        return tuple(_accept(key, part, item) for part in value)
    if bare is float and type(value) in (int, float) and abs(value) <= sys.float_info.max:
        return float(value)
    if bare in (int, bool, str) and type(value) is bare:
        return value
    raise OptionError(f"{key}={quoted(value)}: expected {_expected(kind)}; got {type(value).__name__} {quoted(value)}.")


__all__ = [
    "Declared",
    "check",
    "declarations",
    "describe",
    "from_dict",
    "idle_settings",
    "override",
    "setting",
    "to_dict",
]
