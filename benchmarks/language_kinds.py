"""Texts, languages, tags and music that the bench of defaults trains on: synthetic, or on every machine with Python."""

from __future__ import annotations

import random
import re
import sysconfig
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np

DEFINED = r"(?:def |class |\.)([A-Za-z_]\w{2,14})\b"
"""A name behind what defines or owns it."""


def documentation() -> str:
    """What Python's help() prints about its topics: half a million characters of English."""
    return "\n\n".join(topics[name] for name in sorted(topics))


def identifiers(count: int, seed: int) -> list[str]:
    """Names that Python's standard library defines, of 3 to 15 characters."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    found = {name for path in files for name in re.findall(DEFINED, path.read_text("utf-8"))}
    names = sorted(found)
    random.Random(f"identifiers/{seed}").shuffle(names)
    return names[:count]


def languages(count: int, seed: int, *, words: int = 300) -> list[tuple[str, str]]:
    """Sentences of one toy language and of another, where the verb comes last, the adjective after its noun, a word may become
    two, and an article agrees with its noun."""
    source = random.Random(f"languages/{seed}")
    kinds = {kind: [f"{kind}{k}" for k in range(words // 3)] for kind in ("n", "a", "v")}
    of = {
        word: f"{word.upper()}" if k % 5 else f"{word.upper()} ge"
        for each in kinds.values()
        for k, word in enumerate(each)
    }
    weights = [1 / (k + 2) for k in range(words // 3)]

    def phrase() -> tuple[list[str], list[str]]:
        (noun,) = source.choices(kinds["n"], weights)
        article = "le" if int(noun[1:]) % 2 else "la"
        if source.random() < 0.5:
            (adjective,) = source.choices(kinds["a"], weights)
            return ["the", adjective, noun], [article, of[noun], of[adjective]]
        return ["the", noun], [article, of[noun]]

    pairs = []
    for _ in range(count):
        (verb,) = source.choices(kinds["v"], weights)
        (who, said), (whom, heard) = phrase(), phrase()
        x, y = [*who, verb, *whom], [*said, *heard, of[verb]]
        if source.random() < 0.3:
            x, y = [*x, "not"], [*y[:-1], "ne", y[-1]]
        pairs.append((" ".join(x), " ".join(y)))
    return pairs


def tagged(count: int, seed: int, *, tags: int = 8, words: int = 800) -> tuple[list[list[str]], list[list[str]]]:
    """Sentences of a hidden Markov model: half the words have two tags, and their neighbours tell which it is."""
    language, source = np.random.default_rng(12345), np.random.default_rng(seed)
    moves = language.dirichlet(np.full(tags, 0.3), tags)
    chances = 1 / (np.arange(words) + 3.0)
    belongs = np.stack([language.integers(tags, size=words), language.integers(tags, size=words)])
    belongs[1] = np.where(language.random(words) < 0.5, belongs[0], belongs[1])
    emits = np.stack([chances * (belongs == tag).any(0) + 1e-6 for tag in range(tags)])
    emits /= emits.sum(1, keepdims=True)
    sentences, labels = [], []
    for _ in range(count):
        tag, said, seen = int(source.integers(tags)), [], []
        for _ in range(int(source.integers(5, 30))):
            tag = int(source.choice(tags, p=moves[tag]))
            said.append(f"w{source.choice(words, p=emits[tag])}")
            seen.append(f"T{tag}")
        sentences.append(said)
        labels.append(seen)
    return sentences, labels


def music(pieces: int, seed: int) -> dict[str, Any]:
    """Chords that follow each other in a key, with a tune of neighbouring notes above: lists of MIDI notes."""
    source = random.Random(f"music/{seed}")
    scale, then = (
        (0, 2, 4, 5, 7, 9, 11),
        {0: (3, 4, 5), 1: (4,), 2: (5, 3), 3: (0, 4, 1), 4: (0, 5), 5: (1, 3), 6: (0,)},
    )

    def piece() -> list[list[int]]:
        key, chord, tune, frames = source.randrange(48, 60), 0, 9, []
        for _ in range(source.randrange(8, 20)):
            notes = [key + scale[(chord + step) % 7] + 12 * ((chord + step) // 7) for step in (0, 2, 4)]
            for _ in range(4):
                tune = min(14, max(4, tune + source.choice((-1, 0, 0, 1))))
                frames.append(sorted({*notes, key + 12 * (tune // 7 + 1) + scale[tune % 7]}))
            chord = source.choice(then[chord])
        return frames

    return {
        part: [piece() for _ in range(size)]
        for part, size in (("train", pieces), ("valid", pieces // 4), ("test", pieces // 4))
    }
