"""Names and words that are safe in C, whatever they were in a file or in somebody's equations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from recurra.engines.fused.statements import CPP_WORDS

C_WORDS = CPP_WORDS | set(
    """
    inline restrict _Bool _Complex _Imaginary bool true false complex imaginary typeof asm fortran near far huge
    linux unix i386 arm errno main state steps step k t j long
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t
    """.split()  # noqa: SIM905
)
"""What no name of ours may be: words of C and C++ (a header is read by both), macros of compilers, and what the code around
the equations uses."""


def safe(name: str, taken: Collection[str] = ()) -> str:
    """An identifier of ASCII letters that is close to `name`, no word of C, no macro, and none of `taken`."""
    plain = "".join(
        c if c.isascii() and (c.isalnum() or c == "_") else f"u{ord(c):x}" for c in name.replace("'", "_next")
    )
    if not re.match("[A-Za-z]", plain) or plain in C_WORDS or (len(plain) > 1 and plain.isupper()) or reserved(plain):
        plain = f"v_{plain}"
    found, k = plain, 1
    while found in taken:
        k += 1
        found = f"{plain}_{k}"
    return found


def reserved(name: str) -> bool:
    """Whether the code around the equations uses names that begin so."""
    return name.startswith(
        ("real_", "drive_", "product_", "row_", "mean_", "next_", "ago_", "value_", "layer_", "unit_")
    )


def prefix(name: str) -> str:
    """The beginning of all names of an exported network: `text-1` is `text_1`."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
    if not plain or not plain[0].isalpha() or plain.lower() in C_WORDS or reserved(f"{plain}_"):
        plain = f"net_{plain}".rstrip("_")
    return plain


def comment(lines: Iterable[str]) -> list[str]:
    """A comment of these lines. What would end it, or open another, does not; letters beyond ASCII are escaped, since a
    compiler may refuse them, or they may change how a line is read."""
    inner = [
        re.sub(r"[\x00-\x1f\x7f]", " ", line).replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?").replace("??", "? ?")
        .encode("ascii", "backslashreplace").decode().rstrip().rstrip("\\")
        for line in lines
    ]  # fmt: skip
    if len(inner) == 1:
        return [f"/* {inner[0]} */"]
    return [f"{'/*' if k == 0 else ' *'} {line}".rstrip() for k, line in enumerate(inner)] + [" */"]
