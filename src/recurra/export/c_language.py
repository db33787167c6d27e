"""C99 as a language of the emitter: how it writes operations and numbers, and the functions that a source needs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import numpy as np

from recurra.engines.fused.statements import ARITHMETIC, Language
from recurra.export.c_names import C_WORDS

MATH = {
    name: f"real_{name[:-1]}" for name in ("logf", "log1pf", "sqrtf", "sinf", "cosf", "erff", "floorf", "fmodf")
} | {"powf": "real_power"}
"""What is asked of `math.h`, and our own function that stands for it. exp, tanh and sigmoid are always our own: a library's
take one number at a time, ours become vector instructions."""


class C99(Language):
    """Numbers are float: a double would be computed in software on a microcontroller."""

    def constant(self, value: float) -> str:
        with np.errstate(over="ignore"):
            single = np.float32(value)
        return super().constant(float(single)) if not np.isfinite(single) else literal(single)


def literal(value: np.float32) -> str:
    """The shortest number that reads back as this one."""
    return f"{value!s}f"


C = C99(
    forms={
        **ARITHMETIC,
        "not": "(!{})",
        "where": "({} ? {} : {})",
        **{name: f"real_{name}({{}})" for name in ("sigmoid", "tanh", "relu", "softplus", "exp", "abs", "sign")},
        **{name: f"real_{name}({{}}, {{}})" for name in ("minimum", "maximum", "remainder")},
        **{name: f"{name}f({{}})" for name in ("log", "sqrt", "floor", "sin", "cos", "erf")},
        "clamp": "real_clamp({}, {}, {})",
        "power": "powf({}, {})",
    },
    number="{}f",
    nan="real_from(0x7fc00000)",
    infinity="({}real_from(0x7f800000))",
    line="    const float {} = {};",
    condition="    const int {} = {};",
    reserved=C_WORDS | {"state", "given", "result"},
    prefixes=("real_", "drive_", "product_", "row_", "mean_", "next_", "ago_", "value_", "layer_", "unit_"),
)


@lru_cache(maxsize=1)
def functions() -> dict[str, str]:
    """Our functions by name, each after those that it calls."""
    text = (Path(__file__).parent / "functions.c").read_text()
    found = {}
    for part in re.split(r"\n\n(?=\S)", text.strip()):
        name = re.search(r"^static [^(]*?(\w+)\(", part, re.MULTILINE)
        found[name[1] if name else "real_bits"] = part
    return found


def with_functions(body: str, *, own_math: bool) -> tuple[list[str], str]:
    """The functions that a text calls, in order, and the text; with `own_math` neither asks anything of `math.h`."""

    def ours(text: str) -> str:
        if not own_math:
            return text
        return re.sub(rf"\b({'|'.join(MATH)})\b", lambda found: MATH[found[0]], text)

    known = {name: ours(text) for name, text in functions().items()}
    body = ours(body)
    needed: set[str] = set()

    def need(text: str) -> None:
        for name in set(re.findall(r"\breal_\w+", text)) & known.keys() - needed:
            needed.add(name)
            need(known[name])

    need(body)
    return _in_order(known, needed), body


def _in_order(known: dict[str, str], needed: Iterable[str]) -> list[str]:
    """Each function after those that it calls."""
    done: dict[str, str] = {}

    def put(name: str) -> None:
        if name in done:
            return
        for other in known:
            if other != name and re.search(rf"\b{other}\b", known[name]):
                put(other)
        done[name] = known[name]

    for name in known:
        if name in needed:
            put(name)
    return list(done.values())


def needs_math(text: str) -> bool:
    return re.search(rf"\b({'|'.join(MATH)})\(", text) is not None
