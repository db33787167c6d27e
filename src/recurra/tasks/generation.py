"""Text from a language model as it is produced: a few tokens at a time where one alone makes no character or space."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recurra.data.tokenizers import Tokenizer
from recurra.tasks.capabilities import Generates

CONTEXT = 32
"""How many tokens before the last are decoded with it: they decide about spaces, and hold the first bytes of a character."""


def generate_text(task: Generates, model: Any, prime: str, length: int | None, **how: Any) -> Iterator[str]:
    """The text that follows a prime; joined to it, it reads as one text."""
    tokenizer = task.tokenizer
    # between words a blank is expected, and has no token: one at the end of a prime comes with the word after it
    ids = tokenizer.encode(prime.rstrip(" ") if tokenizer.kind == "word" else prime, unknown="error").tolist()
    return _readable(tokenizer, ids, prime, task.generate(model, ids, length, **how))


def _readable(tokenizer: Tokenizer, ids: list[int], prime: str, drawn: Iterator[int]) -> Iterator[str]:
    if tokenizer.kind == "char":
        for token in drawn:
            yield tokenizer.decode([token])
        return
    context = ids[-CONTEXT:]
    shown = tokenizer.decode(context)
    blank = tokenizer.kind == "word" and prime.endswith(" ")
    for token in drawn:
        context.append(token)
        text = tokenizer.decode(context)
        if text.endswith("\N{REPLACEMENT CHARACTER}"):
            continue
        new = text[len(shown) :]
        yield new.removeprefix(" ") if blank else new
        blank = False
        context = context[-CONTEXT:]
        shown = tokenizer.decode(context)
