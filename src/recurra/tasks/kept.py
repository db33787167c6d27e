"""What a task keeps in `vocabulary.json`, declared by its form: a folder that holds anything else is refused when it is opened.

A form is a type; `[form]`, a list of such; `{str: form}`, an object with any names; `{"name": form, "other?": form}`, one with
these names, of which those with a question mark may be missing; or a tuple of forms, any of which will do.
"""

from __future__ import annotations

import math
from typing import Any

from recurra.errors import RunError, quoted

TOKENIZER: dict[str, Any] = {"kind": str, "sequences": bool, "symbols?": [str], "cut?": bool, "model?": dict}
"""A tokenizer."""
SEQUENCES: dict[str, Any] = {
    "kind": str,
    "tokenizer?": TOKENIZER,
    "tokeniser?": TOKENIZER,
    "mean?": [float],
    "scale?": [float],
    "indicated?": [int],
    "mix?": [[float]],
}
"""How labelled sequences become tokens or channels."""
MOST = 2**40
"""The largest count that is one."""


def check_kept(value: Any, form: Any, where: str) -> None:
    """Refuse a value that has not the form, by the place at which it has not.

    ```python
    check_kept({"mean": [0.5]}, {"mean": [float]}, "vocabulary.json")
    ```
    """
    if isinstance(form, tuple):
        if not any(_fits(value, each) for each in form):
            raise _refusal(value, where, " or ".join(_called(each) for each in form))
    elif isinstance(form, list):
        if not isinstance(value, list):
            raise _refusal(value, where, "a list")
        for k, each in enumerate(value):
            check_kept(each, form[0], f"{where}[{k}]")
    elif isinstance(form, dict):
        if not isinstance(value, dict):
            raise _refusal(value, where, "an object")
        if str in form:
            for name, each in value.items():
                check_kept(each, form[str], f"{where}[{quoted(name)}]")
            return
        for name, each in form.items():
            known = name.removesuffix("?")
            if known in value:
                check_kept(value[known], each, f"{where}[{known!r}]")
            elif not name.endswith("?"):
                raise RunError(f"{where} has no {known!r}, which a run of this kind keeps. Put back a copy of it.")
    elif not _is(value, form):
        raise _refusal(value, where, _called(form))


def _is(value: Any, kind: type) -> bool:
    if kind is float:
        return (type(value) is float and math.isfinite(value) and abs(value) < 1e300) or _is(value, int)
    if kind is int:
        return type(value) is int and abs(value) < MOST
    return isinstance(value, kind)


def _fits(value: Any, form: Any) -> bool:
    try:
        check_kept(value, form, "")
    except RunError:
        return False
    return True


def _called(form: Any) -> str:
    names = {int: "a whole number", float: "a finite number", bool: "true or false", str: "a text", dict: "an object"}
    return "null" if form is type(None) else names.get(form, "another form")


def _refusal(value: Any, where: str, wanted: str) -> RunError:
    return RunError(f"{where} is {quoted(value)}, and {wanted} is expected there. Put back a copy of it.")
