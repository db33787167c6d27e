"""What is true at each character of a text: what the units of a network are compared with.

A value holds once that character has been read: an opening quote is inside its string, the closing one is not.
Text that was cut anywhere, or is no sound Python, is read as far as it makes sense.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]
Labeller = Callable[[str], Mapping[str, Values]]

_TOKEN = re.compile(
    r"""
      (?P<comment>\#[^\n]*)
    | (?P<string>
          \"{3} (?: [^\\"] | \\. | "(?!"") )*+ (?P<long> \"{3} )?
        | '{3}  (?: [^\\'] | \\. | '(?!'') )*+ (?P<other> '{3} )?
        | "     (?: [^\\"\n] | \\. )*+ (?P<short> " )?
        | '     (?: [^\\'\n] | \\. )*+ (?P<single> ' )? )
    | (?P<open>[([{]) | (?P<close>[)\]}]) | \\\n | (?P<line>\n)
    """,
    re.VERBOSE | re.DOTALL,
)
_BLOCK = re.compile(r"(?:async\s+)?(def|class)\b")


def python_labels(text: str) -> dict[str, Values]:
    """Of Python source, from its tokens: inside strings and comments, depth of brackets and of indentation, inside def and
    class bodies; and what `text_labels` gives that does not depend on the language.

    ```python
    labels = rc.analysis.python_labels("f('a')  # b")
    labels["inside-string"]                     # 0 0 1 1 0 0 0 0 0 0 0
    ```

    Blank lines, comments and lines within brackets have the indentation of the line before them.
    """
    string, comment, turns = (np.zeros(len(text), np.float32) for _ in range(3))
    starts, level = [0], 0
    for token in _TOKEN.finditer(text):
        match token.lastgroup:
            case "comment":
                comment[token.start() : token.end()] = 1
            case "open" | "close":
                turns[token.start()] = max(-level, 1 if token.lastgroup == "open" else -1)
                level += int(turns[token.start()])
            case "line" if level == 0:
                starts.append(token.end())
            case "string":
                closed = any(token[name] for name in ("long", "other", "short", "single"))
                string[token.start() : token.end() - closed] = 1
    indentation, in_def, in_class = _blocks(text, starts, comment)
    return {
        "inside-string": string,
        "inside-comment": comment,
        "bracket-depth": turns.cumsum(dtype=np.float32),
        "indentation-depth": indentation,
        "inside-def": in_def,
        "inside-class": in_class,
    } | _lines(text)


def _blocks(text: str, starts: list[int], comment: Values) -> tuple[Values, Values, Values]:
    """Depth of indentation, inside a def, inside a class: of each logical line."""
    found = tuple(np.zeros(len(text), np.float32) for _ in range(3))
    widths, blocks = [0], list[tuple[int, str]]()
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        line = text[start:end]
        body = line.lstrip(" \t\f")
        if body.strip() and not comment[start + len(line) - len(body)]:
            width = len(line[: len(line) - len(body)].expandtabs(8))
            while width < widths[-1]:
                widths.pop()
            if width > widths[-1]:
                widths.append(width)
            blocks = [block for block in blocks if block[0] < width]
        kinds = {kind for _, kind in blocks}
        for values, value in zip(found, (len(widths) - 1, "def" in kinds, "class" in kinds), strict=True):
            values[start:end] = value
        if header := _BLOCK.match(body):
            blocks.append((widths[-1], header[1]))
    return found[0], found[1], found[2]


_C_TOKEN = re.compile(
    r"""
      (?P<comment> //(?:[^\\\n]|\\.)*+ | /\* (?:[^*]|\*(?!/))*+ (?P<ended> \*/ )? )
    | (?P<string> "(?:[^\\"\n]|\\.)*+ (?P<double> " )? | '(?:[^\\'\n]|\\.)*+ (?P<single> ' )? )
    | (?P<directive> ^[ \t]*\#(?:[^\\\n/]|\\.|/(?![/*]))*+ )
    | (?P<open>[([{]) | (?P<close>[)\]}])
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_JSON_TOKEN = re.compile(
    r'(?P<string>"(?:[^\\"\n]|\\.)*+(?P<double>")?)(?P<colon>\s*:)?|(?P<open>[\[{])|(?P<close>[\]}])'
)


def c_labels(text: str) -> dict[str, Values]:
    """Of source in C and languages that are written like it: inside strings, comments and preprocessor lines, depth of
    brackets and of blocks; and what does not depend on the language.

    ```python
    labels = rc.analysis.c_labels("f(); // b")
    labels["inside-comment"]                    # 0 0 0 0 0 1 1 1 1
    ```
    """
    string, comment, directive, turns, blocks = (np.zeros(len(text), np.float32) for _ in range(5))
    levels = {"all": 0, "block": 0}
    for token in _C_TOKEN.finditer(text):
        here = slice(token.start(), token.end())
        if token["comment"] is not None:
            comment[here] = 1
            if token["ended"]:
                comment[token.end() - 1] = 0
        elif token["string"] is not None:
            string[token.start() : token.end() - bool(token["double"] or token["single"])] = 1
        elif token["directive"] is not None:
            directive[here] = 1
        else:
            turn = 1 if token["open"] else -1
            _turn(turns, token.start(), turn, levels, "all")
            if token[0] in "{}":
                _turn(blocks, token.start(), turn, levels, "block")
    return {
        "inside-string": string,
        "inside-comment": comment,
        "inside-preprocessor": directive,
        "bracket-depth": turns.cumsum(dtype=np.float32),
        "block-depth": blocks.cumsum(dtype=np.float32),
    } | _lines(text)


def json_labels(text: str) -> dict[str, Values]:
    """Of JSON: inside strings, inside the keys of objects, depth, inside an array; and what does not depend on the language.

    ```python
    rc.analysis.json_labels('{"a": [1]}')["inside-key"]     # 0 1 1 0 0 0 0 0 0 0
    ```
    """
    string, key, array, turns = (np.zeros(len(text), np.float32) for _ in range(4))
    levels, opened = {"all": 0}, list[tuple[str, int]]()
    for token in _JSON_TOKEN.finditer(text):
        if token["string"] is not None:
            inside = slice(token.start("string"), token.end("string") - bool(token["double"]))
            string[inside] = 1
            key[inside] = float(token["colon"] is not None)
            continue
        _turn(turns, token.start(), 1 if token["open"] else -1, levels, "all")
        if token["open"]:
            opened.append((token[0], token.start()))
        elif opened:
            kind, start = opened.pop()
            array[start : token.start()] = np.maximum(array[start : token.start()], float(kind == "["))
    for kind, start in opened:  # cut before their end
        array[start:] = np.maximum(array[start:], float(kind == "["))
    return {
        "inside-string": string,
        "inside-key": key,
        "inside-array": array,
        "bracket-depth": turns.cumsum(dtype=np.float32),
    } | _lines(text)


def _turn(turns: Values, place: int, turn: int, levels: dict[str, int], name: str) -> None:
    """A bracket: one level more or less, never below zero."""
    turns[place] = max(-levels[name], turn)
    levels[name] += int(turns[place])


def text_labels(text: str) -> dict[str, Values]:
    """Of any text: inside double quotes (to the end of the paragraph at most), depth of brackets, place in the line, line ends.

    ```python
    rc.analysis.text_labels('a "b"')["inside-quotes"]       # 0 0 1 1 0
    ```
    """
    codes = np.array([ord(character) for character in text], dtype=np.int64)
    quotes, turns = np.zeros(len(text), np.float32), np.zeros(len(text), np.float32)
    level = 0
    for paragraph in re.finditer(r"(?:[^\n]|\n(?!\n))+", text):
        here = slice(*paragraph.span())
        signs = np.cumsum(codes[here] == ord('"')) % 2 == 1
        quotes[here] = signs | (codes[here] == ord("“"))
    for bracket in re.finditer(r"[(\[{)\]}]", text):
        turns[bracket.start()] = max(-level, 1 if bracket[0] in "([{" else -1)
        level += int(turns[bracket.start()])
    return {"inside-quotes": quotes, "bracket-depth": turns.cumsum(dtype=np.float32)} | _lines(text)


def _lines(text: str) -> dict[str, Values]:
    """The place of each character in its line, and which is the last before a line's end."""
    place, last = np.zeros(len(text), np.float32), np.zeros(len(text), np.float32)
    for line in re.finditer(r"[^\n]*\n|[^\n]+", text):
        place[line.start() : line.end()] = np.arange(len(line[0]))
        if line[0].endswith("\n") and len(line[0]) > 1:
            last[line.end() - 2] = 1
    return {"position-in-line": place, "line-end": last}
