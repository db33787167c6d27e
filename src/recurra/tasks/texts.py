"""The recipes of language models: a text, the library's source, lines, and long texts of words."""

from __future__ import annotations

import math
from collections.abc import Iterator

from recurra.tasks.corpus import TextData
from recurra.tasks.language import LanguageModelSettings, LanguageSettings, LanguageTask
from recurra.tasks.recipe import Derived, recipe
from recurra.training.loop import Training
from recurra.training.soft_targets import MOST_NUMBERS

MANY_WORDS = {"cpu": 10_000, "cuda": 50_000}
"""A vocabulary of words with more gets an adaptive softmax by the rule of `words`: there a full one takes most of the time."""


@recipe(LanguageTask, "python-source")
def python_source_recipe() -> LanguageSettings:
    """the source of Python's standard library on this machine; about a minute, needs no download"""
    return LanguageSettings(
        data=TextData(tokens="char", min_count=100, limit=700_000),
        model=LanguageModelSettings(
            cell="lstm_coupled", hidden_size=256, embedding_size=64, dropout=0.15, combine="auto"
        ),
        training=Training(
            steps=3000,
            batch_size=16,
            truncation="every:64",
            learning_rate=0.006,
            l2=0.1,
            average="ema:0.99",
            validate_every=1500,
            save_every=500,
        ),
    )


@recipe(LanguageTask)
def text() -> LanguageSettings:
    """any text file: data.path=FILE"""
    return LanguageSettings(
        data=TextData(tokens="char", valid=0.1, test=0.0),
        model=LanguageModelSettings(cell="lstm", hidden_size=320, embedding_size=64, dropout=0.15, combine="auto"),
        training=Training(
            steps=4600,
            batch_size=16,
            truncation="every:128",
            learning_rate=6e-3,
            average="ema:0.995",
            validate_every=920,
            save_every=250,
        ),
    )


@recipe(LanguageTask)
def names() -> LanguageSettings:
    """any file with one short sequence per line: data.path=FILE"""
    return LanguageSettings(
        data=TextData(tokens="char", sequences=True, valid=0.1, test=0.1),
        model=LanguageModelSettings(
            cell="lstm", hidden_size=512, embedding_size=32, dropout=0.5, input_dropout=0.1, combine="auto"
        ),
        # targets that counts smooth: with those of the data alone, short lines are learned by heart as the rate falls
        soft_targets=0.3,
        training=Training(
            steps=6000,
            batch_size=64,
            truncation="none",
            learning_rate=4e-3,
            average="ema:0.999",
            validate_every=1000,
            save_every=500,
        ),
    )


@names.rule
def names_rule(task: LanguageTask) -> Iterator[Derived]:
    """soft_targets is 0 where the predictions of counts, of all tokens at all steps, are too many to keep"""
    tokens, vocabulary = sum(len(part) for part in task.corpus.train), task.tokenizer.size
    if task.settings.data.sequences and tokens * vocabulary > MOST_NUMBERS:
        yield Derived("soft_targets", 0.0, f"{tokens:,} tokens, each of {vocabulary:,}")


@recipe(LanguageTask)
def words() -> LanguageSettings:
    """a long text of words: data.path=FILE; evaluate with --dynamic and --cache"""
    return LanguageSettings(
        data=TextData(tokens="word", min_count=3, valid=0.1, test=0.1),
        model=LanguageModelSettings(
            cell="lstm",
            hidden_size=256,
            dropout=0.4,
            input_dropout=0.2,
            embedding_dropout=0.1,
            weight_dropout=0.2,
            tied=True,
        ),
        training=Training(
            steps=8000,
            batch_size=16,
            truncation="every:64",
            learning_rate=3e-3,
            average="ema:0.998",
            validate_every=1000,
            save_every=500,
        ),
    )


@words.rule
def words_rule(task: LanguageTask) -> Iterator[Derived]:
    """model.hidden_size (64 to 1024), training.steps (2 to 30 passes) and model.dropout (0.5 to 0.2) follow from the number of
    tokens; model.softmax is adaptive from 10,000 words on (50,000 on a GPU), unless what needs a full one is given"""
    tokens, vocabulary = sum(len(part) for part in task.corpus.train), task.tokenizer.size
    why = f"{tokens:,} tokens"
    if not task.settings.model.hidden_sizes:
        yield Derived("model.hidden_size", min(1024, max(64, 32 * round(2 * (tokens / 20_000) ** (1 / 3)))), why)
    # a text that is read often is learned by heart
    yield Derived("model.dropout", 0.5 if tokens < 300_000 else 0.4 if tokens < 3_000_000 else 0.2, why)
    needs_full = {"model.tied", "model.deep_output", "model.ending", "model.combine"} & (task.given or set())
    many = vocabulary > MANY_WORDS[task.settings.device]
    if many and task.settings.data.tokens == "word" and not needs_full:
        yield Derived("model.softmax", "adaptive", f"a vocabulary of {vocabulary:,}")
    passes = min(30.0, max(2.0, 8 * math.sqrt(1e6 / tokens)))
    steps = max(100, round(passes * task.make_batches(task.corpus.train, training=True).steps_per_epoch))
    yield Derived("training.steps", steps, f"{passes:.1f} passes over {why}")
    yield Derived("training.validate_every", -(-steps // 8), f"8 times in {steps:,} steps")
