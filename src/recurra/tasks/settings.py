"""Recipes are frozen dataclasses, one level deep; this reads them strictly.

```python
@dataclass(frozen=True)
class Training:
    steps: int = setting(1000, "how many updates to make")
    clip_norm: float | None = setting(1.0, "scale gradients down to this norm; none: leave them")

@dataclass(frozen=True)
class Settings:
    training: Training = Training()
    seed: int = setting(0, "where every random number starts from")

override(Settings(), ["training.steps=1e5", "training.clip_norm=none"])
```

A level may have a method `check(self) -> None` that raises an `OptionError`: it is called after every reading. A recipe may
have a method `unused(self) -> dict[str, str]`: settings that would change nothing beside the others, with the reason; to give
one is an error, to have one is not.
"""

from __future__ import annotations

import difflib
import math
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from recurra.errors import OptionError
from recurra.types import setting

R = TypeVar("R")

_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_EXPECTED: dict[Any, str] = {
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    str: "a text",
}


def override(recipe: R, assignments: Iterable[str]) -> R:
    """The recipe with some settings replaced.

    - `assignments`: `KEY=VALUE` each, the key dotted: `training.learning_rate=1e-3`. The last of several for one key counts.
    """
    kinds = _kinds(type(recipe))
    changes: dict[str, dict[str, Any]] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        key = key.strip()
        if not equals:
            raise OptionError(f"{assignment!r} is not a setting. Write KEY=VALUE, as in {next(iter(kinds))}=VALUE.")
        if key not in kinds:
            raise OptionError(_unknown(key, kinds))
        if key == "name":
            raise OptionError("name says which recipe this is; it cannot be set. Name the run's folder with --out.")
        group, _, name = key.rpartition(".")
        changes.setdefault(group, {})[name] = _parse(key, text, kinds[key])
    own = changes.pop("", {})
    inner = {group: replace(getattr(recipe, group), **values) for group, values in changes.items()}
    made: R = replace(recipe, **own, **inner)  # type: ignore[type-var]
    _check(made)
    for key, why in _unused(made).items():
        group, _, name = key.rpartition(".")
        if name in (own if not group else changes.get(group, {})):
            raise OptionError(f"{key} would change nothing here: {why}. Leave it out.")
    return made


def to_dict(recipe: Any) -> dict[str, Any]:
    """The recipe as JSON holds it: groups are objects, tuples are lists."""
    made = {}
    for part in fields(recipe):
        value = getattr(recipe, part.name)
        made[part.name] = to_dict(value) if is_dataclass(value) else list(value) if isinstance(value, tuple) else value
    return made


def from_dict(cls: type[R], values: dict[str, Any]) -> R:
    """The recipe that `to_dict` was given. Unknown keys, missing keys and values of another type are refused by name."""
    flat = dict(_flatten(cls, values))
    kinds = _kinds(cls)
    for key in flat:
        if key not in kinds:
            raise OptionError(_unknown(key, kinds))
    missing = [key for key in kinds if key not in flat]
    if missing:
        raise OptionError(f"the recipe lacks {', '.join(missing)}. Add {'it' if len(missing) == 1 else 'them'}.")
    levels: dict[str, dict[str, Any]] = {group: {} for group in ("", *_groups(cls))}
    for key, kind in kinds.items():
        group, _, name = key.rpartition(".")
        levels[group][name] = _accept(key, flat[key], kind)
    own = levels.pop("")
    made = cls(**own, **{group: _groups(cls)[group](**inner) for group, inner in levels.items()})
    _check(made)
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
        raise OptionError(f"a recipe is an object with the keys {', '.join(_hints(cls))}; found {values!r}.")
    for name, value in values.items():
        inner = _groups(cls).get(name)
        if inner is None:
            yield str(name), value
        elif not isinstance(value, dict):
            raise OptionError(f"{name}={value!r}: expected an object with the keys {', '.join(_hints(inner))}.")
        else:
            yield from ((f"{name}.{key}", found) for key, found in value.items())


def _unknown(key: str, kinds: Iterable[str]) -> str:
    inside = [known for known in kinds if known.startswith(f"{key}.")]
    if inside:
        return f"{key!r} is a group of settings. Set one of them: {', '.join(inside)}."
    group, _, name = key.rpartition(".")

    def likeness(known: str) -> tuple[float, bool]:
        """Of the names alone, since a group that is the same makes any two settings alike."""
        other, _, end = known.rpartition(".")
        return difflib.SequenceMatcher(None, name, end).ratio(), group == other

    best = max(kinds, key=likeness)
    guess = f" Did you mean {best!r}?" if likeness(best)[0] >= 0.6 else ""
    return f"setting {key!r} does not exist.{guess} Known: {', '.join(sorted(kinds))}."


def _check(recipe: Any) -> None:
    """Call the check of every level, the groups before the whole."""
    for part in fields(recipe):
        value = getattr(recipe, part.name)
        if is_dataclass(value):
            _check(value)
    check = getattr(recipe, "check", None)
    if callable(check):
        check()


def _unused(recipe: Any) -> dict[str, str]:
    unused = getattr(recipe, "unused", None)
    return unused() if callable(unused) else {}


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
        raise OptionError(f"{key}={text}: expected {_expected(kind)}; got {text!r}.") from None


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
    raise OptionError(f"{key}={value!r}: expected {_expected(kind)}; got {type(value).__name__} {value!r}.")


__all__ = ["describe", "from_dict", "override", "setting", "to_dict"]
