"""Tokenizers: text as bytes, characters, words, or parts of words (byte-pair encoding), numbered from 0."""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from recurra.data.limits import check_limit, limits
from recurra.errors import DataError, OptionError, choose_from, quoted
from recurra.types import Int

Unknown = Literal["error", "replace"]

UNKNOWN = "<unk>"
BPE_SIZE = 4096
"""How many tokens `bpe` has by default."""
COUNTED = 1 << 20
"""Tokens that are counted between two looks at how many different ones there are."""
FEWER = "Keep the most frequent ones with data.max_symbols=N, or use data.tokens=byte."


class Tokenizer(ABC):
    """Turns text into tokens numbered from 0, and back.

    - `kind`: `byte`, `char`, `word` or `bpe`.
    - `size`: how many tokens there are, V.
    - `start`, `end`: the numbers of the tokens that stand at either end of a sequence, where there are such tokens; they
      are the last two.
    """

    kind: str

    def __init__(self, plain: int, sequences: bool):
        self.plain, self.sequences = plain, sequences
        self.size = plain + 2 if sequences else plain
        self.start = plain if sequences else None
        self.end = plain + 1 if sequences else None

    @abstractmethod
    def encode(self, text: str, unknown: Unknown | None = None) -> Int[Tensor, " N"]:
        """The tokens of a text, without start and end.

        `unknown`: what becomes of a character or word that has no token: `error` names it, `replace` gives `<unk>`.
        Left out, it is `replace` where training text was cut to the vocabulary (`min_count`, `max_size`), so that `<unk>`
        has been learned, and `error` where it was not.
        """

    @abstractmethod
    def ends(self, text: str) -> Int[Tensor, " N"]:
        """How many characters of a text have been read after each of its tokens."""

    def decode(self, ids: Int[Tensor, " N"] | Iterable[int]) -> str:
        """The text of some tokens. Start and end give nothing."""
        numbers = ids.reshape(-1).tolist() if isinstance(ids, Tensor) else [int(i) for i in ids]
        outside = [i for i in numbers if not 0 <= i < self.size]
        if outside:
            raise DataError(f"{outside[0]} is not a token: this {self.kind} vocabulary has 0 to {self.size - 1}.")
        return self._join([i for i in numbers if i < self.plain])

    @abstractmethod
    def _join(self, ids: list[int]) -> str:
        """The text of plain tokens."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """What `tokenizer_from_json` reads."""


class Bytes(Tokenizer):
    """The 256 bytes of UTF-8."""

    kind = "byte"

    def __init__(self, sequences: bool = False):
        super().__init__(256, sequences)

    def encode(self, text: str, unknown: Unknown | None = None) -> Int[Tensor, " N"]:
        # bytes of a command line that were not UTF-8 arrive as escapes, and leave as the bytes that they were
        data = _utf8(text, "surrogateescape")
        return torch.from_numpy(np.frombuffer(data, dtype=np.uint8).astype(np.int64))

    def ends(self, text: str) -> Int[Tensor, " N"]:
        sizes = torch.tensor([len(_utf8(character, "surrogateescape")) for character in text], dtype=torch.int64)
        return torch.arange(1, len(text) + 1).repeat_interleave(sizes)

    def _join(self, ids: list[int]) -> str:
        return bytes(ids).decode("utf-8", "replace")

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "sequences": self.sequences}


class Listed(Tokenizer):
    """A vocabulary of tokens that the training text has, after `<unk>`, which is 0; `cut`: it has more."""

    def __init__(self, tokens: Iterable[str], cut: bool = False, sequences: bool = False):
        self.tokens, self.cut = [UNKNOWN, *tokens], cut
        super().__init__(len(self.tokens), sequences)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "symbols": self.tokens[1:], "cut": self.cut, "sequences": self.sequences}


class Characters(Listed):
    """The characters (code points) of the training text, sorted."""

    kind = "char"

    def __init__(self, tokens: Iterable[str], cut: bool = False, sequences: bool = False):
        super().__init__(tokens, cut, sequences)
        codes = [ord(token) for token in self.tokens[1:]]
        self._ids = np.zeros(max(codes, default=0) + 2, dtype=np.int64)  # the last place is for all that is beyond
        self._ids[codes] = np.arange(1, len(self.tokens))

    def encode(self, text: str, unknown: Unknown | None = None) -> Int[Tensor, " N"]:
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        ids = self._ids[np.minimum(codes, len(self._ids) - 1)]
        if _refuses(unknown, self.cut) and not ids.all():
            _refuse("character", [chr(code) for code in codes[ids == 0]], self.size)
        return torch.from_numpy(ids)

    def ends(self, text: str) -> Int[Tensor, " N"]:
        return torch.arange(1, len(text) + 1)

    def _join(self, ids: list[int]) -> str:
        return "".join(self.tokens[i] if i else "\N{REPLACEMENT CHARACTER}" for i in ids)


class Words(Listed):
    """Words, single marks of punctuation, and the gaps between them that a reader would not expect.

    Between two words a space is expected, before a comma none, after an opening bracket none. Such gaps have no token.
    Any other gap has one, also the empty gap where a space is expected; so has each newline. Text whose words are all
    known is given back exactly.
    """

    kind = "word"

    def __init__(self, tokens: Iterable[str], cut: bool = False, sequences: bool = False):
        super().__init__(tokens, cut, sequences)
        self._ids = {token: k for k, token in enumerate(self.tokens) if k}

    def encode(self, text: str, unknown: Unknown | None = None) -> Int[Tensor, " N"]:
        words = list(split_words(text))
        ids = [self._ids.get(word, 0) for word in words]
        if _refuses(unknown, self.cut) and 0 in ids:
            _refuse("word", [word for word, i in zip(words, ids, strict=True) if not i], self.size)
        return torch.tensor(ids, dtype=torch.int64)

    def ends(self, text: str) -> Int[Tensor, " N"]:
        found, end = [], 0
        for word in split_words(text):
            end = text.index(word, end) + len(word)
            found.append(end)
        return torch.tensor(found, dtype=torch.int64)

    def _join(self, ids: list[int]) -> str:
        parts, before = [], ""
        for word in (self.tokens[i] for i in ids):
            parts += [expected_gap(before, word), word]
            before = word
        return "".join(parts)


class BytePairs(Tokenizer):
    """Byte-pair encoding over bytes: frequent parts of words. Sennrich et al. 2016; by the package `tokenizers`."""

    kind = "bpe"

    def __init__(self, model: Any, sequences: bool = False):
        self._model = model
        super().__init__(model.get_vocab_size(), sequences)

    def encode(self, text: str, unknown: Unknown | None = None) -> Int[Tensor, " N"]:
        _utf8(text, "strict")
        return torch.tensor(self._model.encode_batch_fast([text])[0].ids, dtype=torch.int64)

    def ends(self, text: str) -> Int[Tensor, " N"]:
        _utf8(text, "strict")
        return torch.tensor([end for _, end in self._model.encode(text).offsets], dtype=torch.int64)

    def _join(self, ids: list[int]) -> str:
        return str(self._model.decode(ids))

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "model": json.loads(self._model.to_str()), "sequences": self.sequences}


KINDS = {kind.kind: kind for kind in (Bytes, Characters, Words, BytePairs)}


def build_tokenizer(
    kind: str,
    texts: Iterable[str],
    *,
    min_count: int = 1,
    max_size: int | None = None,
    sequences: bool = False,
) -> Tokenizer:
    """A vocabulary for training texts.

    - `kind`: `byte`, `char`, `word` or `bpe`.
    - `min_count`: characters or words that are seen less often become `<unk>`; for `bpe`, pairs that are seen less often are
      not merged.
    - `max_size`: the most tokens that there may be in all; the most frequent are kept.
    - `sequences`: also make tokens for the start and the end of a sequence.

    ```python
    tokenizer = rc.data.build_tokenizer("word", ["the cat sat", "the dog"])
    tokenizer.decode(tokenizer.encode("the cat"))
    ```
    """
    choose_from("tokens", kind, KINDS)
    if min_count < 1:
        raise OptionError(f"min_count must be at least 1; got {min_count}.")
    if kind == "byte" and min_count > 1:
        raise OptionError(f"min_count={min_count} was asked for, but byte tokens are always all 256. Leave it out.")
    least = (256 if kind in ("byte", "bpe") else 2) + 2 * sequences
    if max_size is not None and max_size < least:
        raise OptionError(f"max_size={max_size} is too small: {kind} tokens need at least {least}.")
    if kind == "byte":
        return Bytes(sequences)
    if kind == "bpe":
        return BytePairs(_train_bpe(texts, min_count, (max_size or BPE_SIZE) - 2 * sequences), sequences)
    counts = _count(kind, texts, limits().vocabulary if max_size is None and min_count == 1 else None)
    if not counts:
        raise DataError(f"A vocabulary of {kind} tokens was asked for, but the text is empty. Give text to train on.")
    often = sorted((token for token in counts if counts[token] >= min_count), key=lambda s: (-counts[s], s))
    if max_size is None:
        check_limit("vocabulary", len(often), f"{kind} tokens", FEWER)
    kept = often if max_size is None else often[: max_size - 1 - 2 * sequences]
    cut = len(kept) < len(counts)
    return Characters(sorted(kept), cut, sequences) if kind == "char" else Words(kept, cut, sequences)


def _count(kind: str, texts: Iterable[str], most: int | None) -> Counter[str]:
    """How often each token occurs. `most`: different ones, after which counting would be in vain."""
    counts: Counter[str] = Counter()
    for text in texts:
        tokens = iter(text) if kind == "char" else split_words(text)
        while some := list(islice(tokens, COUNTED)):
            counts.update(some)
            if most is not None and len(counts) > most:
                check_limit("vocabulary", len(counts), f"{kind} tokens", FEWER)
    return counts


def tokenizer_from_json(saved: dict[str, Any]) -> Tokenizer:
    """The tokenizer that `to_json` wrote."""
    try:
        kind, sequences = choose_from("tokens", saved["kind"], KINDS), bool(saved["sequences"])
        if kind == "byte":
            return Bytes(sequences)
        if kind == "bpe":
            model = saved["model"]["model"]
            return BytePairs(_byte_pairs(model["vocab"], model["merges"]), sequences)
        return (Characters if kind == "char" else Words)(saved["symbols"], bool(saved["cut"]), sequences)
    except (KeyError, TypeError) as error:
        raise DataError(f"This is not a saved vocabulary ({error} is missing or wrong). Save it again.") from error


NO_SPACE_BEFORE = frozenset(".,;:!?)]}%…'’\"”»-–/\\")
NO_SPACE_AFTER = frozenset("([{'‘\"“«-–/\\#$£€@")


def expected_gap(before: str, after: str) -> str:
    """The space, or none, that a reader expects between two tokens of a text of words. Gaps themselves expect none."""
    if not before.strip() or not after.strip():
        return ""
    return "" if after in NO_SPACE_BEFORE or before in NO_SPACE_AFTER else " "


def split_words(text: str) -> Iterator[str]:
    """The words of a text, its marks of punctuation, and the gaps that are not as expected."""
    before, end = "", 0
    for match in _word_pattern().finditer(text):
        gap, word = match.groups()
        if gap != expected_gap(before, word):
            yield from GAPS.findall(gap) or [""]
        yield word
        before, end = word, match.end()
    yield from GAPS.findall(text, end)


GAPS = re.compile(r"\n|[^\S\n]+")


@functools.cache
def _word_pattern() -> re.Pattern[str]:
    """A gap, then a word (apostrophes inside it, accents and vowel signs that are characters of their own) or one mark."""
    signs = "".join(chr(code) for code in range(0x300, 0x11000) if unicodedata.category(chr(code)).startswith("M"))
    return re.compile(rf"(\s*)(\w[\w{signs}]*(?:['’]\w[\w{signs}]*)*|[^\w\s])")


def _refuses(unknown: Unknown | None, cut: bool) -> bool:
    if unknown is None:
        return not cut
    return choose_from("unknown", unknown, ("error", "replace")) == "error"


def _refuse(what: str, missing: list[str], size: int) -> None:
    names = list(dict.fromkeys(missing))
    shown = ", ".join(quoted(name) for name in names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    raise DataError(f"The vocabulary ({size} tokens) has no {what} {shown}. Leave out what it does not have.")


def _utf8(text: str, errors: str) -> bytes:
    try:
        return text.encode("utf-8", errors)
    except UnicodeEncodeError as error:
        raise DataError(
            f"The text holds {text[error.start]!r} at position {error.start:,}, which is half a character. Leave it out."
        ) from error


def _whole(text: str) -> str:
    """A text, refused if it holds half a character, which the package cannot take."""
    _utf8(text, "strict")
    return text


def _tokenizers() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise DataError("bpe tokens need the package tokenizers: pip install recurra[text].") from error
    return tokenizers


def _byte_pairs(numbers: dict[str, int], merges: list[Any]) -> Any:
    """The package's model of these tokens and merges. All else that it would read is as it is here, whatever was saved: a
    stranger's regular expression or normalizer takes hours or all memory, and no signal ends it."""
    package = _tokenizers()
    pairs = [tuple(each.split(" ") if isinstance(each, str) else each) for each in merges]
    known = {*numbers} if isinstance(numbers, dict) else set()
    if (
        not known >= {*package.pre_tokenizers.ByteLevel.alphabet()}
        or sorted(numbers.values()) != [*range(len(numbers))]
        or any(type(number) is not int for number in numbers.values())
        or any(len(pair) != 2 or not known >= {*pair, "".join(pair)} for pair in pairs)
    ):
        raise TypeError("its model")
    model = package.Tokenizer(package.models.BPE(vocab=numbers, merges=pairs))
    model.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = package.decoders.ByteLevel()
    return model


def _train_bpe(texts: Iterable[str], min_count: int, size: int) -> Any:
    package = _tokenizers()
    alphabet = sorted(package.pre_tokenizers.ByteLevel.alphabet())
    model = _byte_pairs({each: k for k, each in enumerate(alphabet)}, [])
    trainer = package.trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_count,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    model.train_from_iterator(map(_whole, texts), trainer)
    return model
