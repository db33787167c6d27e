"""Pairs of sequences: the settings, and how they become data, an encoder with its decoder, and a trainer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from recurra.analysis.attention import Attention
from recurra.analysis.beam import BeamTree, Growth
from recurra.data.pair_tasks import synthetic_dates, synthetic_sums
from recurra.data.pairs import Pair, PairBatch, Pairs, PairSplit, read_pairs, split_pairs
from recurra.data.text import read_split
from recurra.data.tokenizers import (
    UNKNOWN,
    Tokenizer,
    Unknown,
    Words,
    build_tokenizer,
    split_words,
    tokenizer_from_json,
)
from recurra.data.transfer import send
from recurra.errors import DataError, OptionError, choose_from, quoted
from recurra.layers.attention import KINDS
from recurra.metrics.matching import bleu, edit_distance, exact_match
from recurra.models import translate as models
from recurra.models.draws import draw_numbers
from recurra.models.markov import best_markov
from recurra.models.sampling import Choice
from recurra.models.search import Ending, Found, beam_search, draw
from recurra.models.translate import CONTEXTS, Translator
from recurra.tasks import word_vectors
from recurra.tasks.corpus import TOKENS
from recurra.tasks.kept import TOKENIZER
from recurra.tasks.recipe import Derived, recipe
from recurra.tasks.results import SHOWN, Comparison, Evaluation, Examples, Translation
from recurra.tasks.task import ModelSettings, Settings, Task, check_shares, given_test, given_valid, of_files
from recurra.training.distributed import Ranks
from recurra.training.evaluation import Score, evaluate_whole, evaluating
from recurra.training.loop import Trainer, Training
from recurra.training.objectives import batch_weights, weighted_nll
from recurra.types import MOST, Float, Int, setting

PASSES = 30
"""How often pairs are passed over: of 4,250 pairs validation was best after 30 passes, and no better after 60."""
UNKNOWN_SHARE = 0.3
"""Where more words of validation pairs than this were never learned, whole words are no tokens."""
TASKS = {"dates": synthetic_dates, "addition": synthetic_sums}


@dataclass(frozen=True)
class TranslateData:
    path: str | None = setting(None, "a file with two columns (tab, or comma in .csv), or the sources, one per line")
    target_path: str | None = setting(None, "the targets, one per line; none: they are the second column of data.path")
    valid_path: str | None = setting(
        None, "pairs to validate on, in two columns; none: a share of data.path", added=True, idle=of_files
    )
    test_path: str | None = setting(
        None, "pairs to test on, in two columns; none: a share of data.path", added=True, idle=of_files
    )
    task: str | None = setting(None, "synthetic pairs: dates or addition; none: data.path", choices=TASKS)
    count: int = setting(
        20_000,
        "how many synthetic pairs, all parts together",
        low=1,
        most=MOST,
        idle=lambda s: "it is for synthetic pairs, and no data.task is given" if s.data.task is None else None,
    )
    tokens: str = setting("char", "what a token is, on both sides: byte, char, word or bpe", choices=TOKENS)
    min_count: int = setting(1, "tokens seen less often become <unk>", low=1)
    max_symbols: int | None = setting(
        None, "the size of the vocabulary on each side: keep the most frequent tokens", low=1
    )
    embeddings: str | None = word_vectors.from_file()
    freeze_embeddings: bool = word_vectors.frozen()
    valid: float = setting(
        0.05,
        "the share of the sources that chooses the model",
        idle=given_valid,
    )
    test: float = setting(
        0.1,
        "the share of the sources that is kept for the last evaluation",
        idle=given_test,
    )

    def check(self) -> None:
        if self.task is not None and (self.path is not None or self.target_path is not None):
            raise OptionError(f"data.task={self.task} is synthetic: leave out data.path and data.target_path.")
        check_shares(self.valid, self.test)


@dataclass(frozen=True)
class TranslateModelSettings(ModelSettings):
    decoder_cell: str | None = setting(None, "the decoder's cell; none: as model.cell")
    bidirectional: bool = setting(True, "the encoder reads in both directions")
    context: str = setting(
        "attention", "how the decoder hears of the source: input, state, both, attention or final", choices=CONTEXTS
    )
    attention: str = setting(
        "additive",
        "additive or dot",
        choices=KINDS,
        idle=lambda s: (
            None if s.model.context == "attention" else f"there is none, for model.context={s.model.context}"
        ),
    )
    predict_length: bool = setting(False, "also learn how long the target is, before its first token: P(τ | X)")
    copy_unknown: bool = setting(
        False, "an <unk> that is output becomes the source word most attended to (word tokens)"
    )


@dataclass(frozen=True)
class TranslateSettings(Settings):
    whole: ClassVar[str | None] = "pairs"
    data: TranslateData = field(default_factory=TranslateData)
    model: TranslateModelSettings = field(default_factory=TranslateModelSettings)

    def check(self) -> None:
        if self.model.copy_unknown and (self.data.tokens != "word" or self.model.context != "attention"):
            raise OptionError("model.copy_unknown needs data.tokens=word and model.context=attention.")


class TranslationTask(Task[Translator]):
    """An encoder and a decoder on pairs. With the vocabularies of a run folder, the pairs are not needed to translate."""

    data_kind = "pairs"
    keeps: ClassVar[Any] = {"source": TOKENIZER, "target": TOKENIZER, "longest": int}
    factorisation = (
        "A product of conditionals, given the source: P(Y | X) = Π P(yt | X, y1 … yt−1). Each output is fed back."
    )

    # -- data --------------------------------------------------------------------------------------------------------

    @cached_property
    def pairs(self) -> PairSplit:
        data, seed = self.settings.data, self.settings.seed
        if data.task is not None:
            split = split_pairs(TASKS[data.task](data.count, seed), data.valid, data.test, seed)
        elif data.path is not None:
            parts = read_split(
                lambda path: read_pairs(path, data.target_path if path == data.path else None),
                lambda pairs, valid, test: _parts(split_pairs(pairs, valid, test, seed)),
                data.path,
                data.valid_path,
                data.test_path,
                valid=data.valid,
                test=data.test,
            )
            split = PairSplit(*parts)
        else:
            raise OptionError("this recipe reads pairs: give it a file with two columns with data.path=FILE.")
        if not split.train or not split.valid:
            count = sum(map(len, _parts(split)))
            raise DataError(
                f"{count} pairs leave none to train on or none to validate (data.valid={data.valid}). Give more, or "
                "another share."
            )
        return split

    def make_vocabulary(self) -> dict[str, Any]:
        """Both tokenizers, and how long the longest target is."""
        data, train = self.settings.data, self.pairs.train
        made = [
            build_tokenizer(
                data.tokens,
                (pair[side] for pair in train),
                min_count=data.min_count,
                max_size=data.max_symbols,
                sequences=side == 1,
            )
            for side in (0, 1)
        ]
        longest = max(len(made[1].encode(pair.target, "replace")) for pair in train)
        return {"source": made[0].to_json(), "target": made[1].to_json(), "longest": longest}

    def unknown_share(self, side: int) -> float:
        """Of the tokens of one side of the validation pairs, how many the training pairs do not have."""
        data, (train, valid, _) = self.settings.data, _parts(self.pairs)
        made = build_tokenizer(data.tokens, (pair[side] for pair in train), min_count=data.min_count)
        ids = torch.cat([made.encode(pair[side], "replace") for pair in valid])
        return float((ids == 0).double().mean())

    @cached_property
    def source_tokenizer(self) -> Tokenizer:
        return self._tokenizer("source")

    @cached_property
    def target_tokenizer(self) -> Tokenizer:
        return self._tokenizer("target")

    def _tokenizer(self, side: str) -> Tokenizer:
        try:
            return tokenizer_from_json((self.vocabulary or {})[side])
        except KeyError:
            raise DataError(f"vocabulary.json has no {side!r}: it is not of a run that learned pairs.") from None

    @property
    def longest(self) -> int:
        """How many tokens the longest target had that was learned."""
        return int((self.vocabulary or {})["longest"])

    @property
    def _ends(self) -> tuple[int, int]:
        start, end = self.target_tokenizer.start, self.target_tokenizer.end
        assert start is not None
        assert end is not None
        return start, end

    @property
    def about_data(self) -> str:
        sizes = f"{self.source_tokenizer.size} and {self.target_tokenizer.size}"
        first = " → ".join(map(quoted, self.pairs.train[0]))
        return f"{len(self.pairs.train):,} pairs of {self.settings.data.tokens} tokens, such as {first}; vocabularies {sizes}"

    def make_batches(self, part: Sequence[Pair], *, training: bool) -> Pairs:
        pairs = list(zip(self._sources(part), self._targets(part), strict=True))
        return Pairs(pairs, **self.batch_options(training=training))

    def _sources(self, part: Iterable[Pair]) -> list[Int[Tensor, " n"]]:
        return [self.source_tokenizer.encode(pair.source, "replace") for pair in part]

    def _targets(self, part: Iterable[Pair]) -> list[Int[Tensor, " n"]]:
        """The tokens of the targets, each with its start and its end."""
        start, end = (torch.tensor([token]) for token in self._ends)
        return [torch.cat([start, self.target_tokenizer.encode(pair.target, "replace"), end]) for pair in part]

    # -- model and training ------------------------------------------------------------------------------------------

    def word_tables(self) -> word_vectors.Tables:
        """Of the sources: the targets are another language."""
        return word_vectors.words_of(self.source_tokenizer, "source_embedding")

    def make_model(self) -> Translator:
        model = self.settings.model
        encoder = self.make_recurrent()
        reads = encoder.input_size + (encoder.output_size if model.context in ("input", "both") else 0)
        decoder = self.make_recurrent(
            reads,
            cell=model.decoder_cell or model.cell,
            bidirectional=False,
            learn_initial=model.learn_initial and model.context == "input",
        )
        return Translator(
            encoder,
            decoder,
            self.source_tokenizer.size,
            self.target_tokenizer.size,
            context=model.context,
            attention=model.attention,
            longest=self.longest if model.predict_length else None,
            tied=model.tied,
            input_dropout=model.input_dropout,
        )

    def make_trainer(self, model: Translator) -> Trainer:
        valid = self.make_batches(self.pairs.valid, training=False)
        train = self.make_batches(self.pairs.train, training=True)
        return self.train_on(model, train, lambda model: evaluate_pairs(model, valid, self.ranks).nats, whole=pair_loss)

    def about_model(self, model: Translator) -> str:
        settings = self.settings.model
        how = f"{settings.attention} attention" if settings.context == "attention" else f"context as {settings.context}"
        how = "the encoder's final state" if settings.context == "final" else how
        engine = model.decoder.explain(self.settings.training.batch_size).engine.name
        return f"{super().about_model(model)}, {how}, engine {engine}"

    # -- translating -------------------------------------------------------------------------------------------------

    def search(
        self,
        model: Translator,
        texts: Sequence[str],
        *,
        beam: int = 1,
        n_best: int = 1,
        length_power: float = 1.0,
        choice: Choice | None = None,
        lengths: str | None = None,
        limit: int | None = None,
        stop_probability: float = 0.0,
        unknown: Unknown | None = None,
        generator: torch.Generator | None = None,
    ) -> list[list[Found]]:
        """For each text its `n_best` translations, best first: by a beam, or drawn as `choice` says.

        - `lengths`: `predicted` or `drawn`, where the model has learned P(τ | X); otherwise the end token ends a translation.
        - `limit`: the most tokens; twice as many as the longest target had that was learned, unless it is given.
        - `unknown`: what becomes of tokens that the vocabulary lacks, as for `Tokenizer.encode`.
        """
        encoded = [self.source_tokens(text, unknown) for text in texts]
        order = sorted(range(len(texts)), key=lambda k: len(encoded[k]))  # so that little is padded
        found: list[list[Found]] = [[]] * len(texts)
        start, end = self._ends
        limit = 2 * self.longest if limit is None else limit
        for at in range(0, len(order), self.evaluated_together):
            rows = order[at : at + self.evaluated_together]
            with evaluating(model):
                reading = model.read(*_padded([encoded[k] for k in rows], model.output.weight.device))
                taus = None if lengths is None else choose_lengths(model.length_logits(reading), lengths, generator)
                ending = Ending(limit, end, taus, stop_probability, (start,))
                asked = models.Translation(model, reading, start)
                if choice is None:
                    made = beam_search(asked, ending, beam, n_best=n_best, length_power=length_power)
                else:
                    drawn = [draw(asked, ending, choice, generator) for _ in range(n_best)]
                    made = [sorted(each, key=lambda one: -one.score) for each in zip(*drawn, strict=True)]
            for k, one in zip(rows, made, strict=True):
                found[k] = one
        return found

    def beam(self, model: Translator, text: str, width: int = 4, length_power: float = 1.0) -> BeamTree:
        """The beginnings that a beam held at each step."""
        start, end = self._ends
        grown = Growth(end, lambda token: self.target_tokenizer.decode([token]))
        with evaluating(model):
            reading = model.read(*_padded([self.source_tokens(text)], model.output.weight.device))
            ending = Ending(2 * self.longest, end, None, 0.0, (start,))
            asked = models.Translation(model, reading, start)
            beam_search(asked, ending, width, length_power=length_power, watch=grown.add)
        return grown.tree(text)

    def source_tokens(self, text: str, unknown: Unknown | None = None) -> Int[Tensor, " n"]:
        """A text as the encoder reads it."""
        if not text.strip():
            raise DataError("the text to translate is empty. Give at least one token.")
        return self.source_tokenizer.encode(text, unknown)

    def attended(self, model: Translator, text: str, tokens: Sequence[int]) -> Float[Tensor, "T S"]:
        """What each token of a translation, and its end, attended to."""
        if model.attention is None:
            raise OptionError(f"this model has no attention: model.context={self.settings.model.context}.")
        source, lengths = _padded([self.source_tokens(text, "replace")], model.output.weight.device)
        inputs = torch.tensor([[self._ends[0], *tokens]], device=source.device)
        with evaluating(model):
            weights = model.decode(model.read(source, lengths), inputs).weights
        assert weights is not None
        return weights[0].cpu()

    def translate(
        self, model: Translator, texts: Sequence[str], *, attention: bool = False, **options: Any
    ) -> list[Translation]:
        """The translations of each text, with a map of attention where it is asked for; `options` as for `search`."""
        made = []
        for source, found in zip(texts, self.search(model, texts, **options), strict=True):
            rows = [
                {
                    "text": self.text_of(model, source, one.tokens),
                    "log_probability": one.log_probability,
                    "score": one.score,
                }
                for one in found
            ]
            seen = self._attention(model, source, found[0].tokens) if attention else None
            made.append(Translation(source, rows, seen))
        return made

    def _attention(self, model: Translator, source: str, tokens: Sequence[int]) -> Attention | None:
        """What each token of a translation, and its end, attended to, with the names of the tokens read and written."""
        if model.attention is None:
            return None
        read = [self.source_tokenizer.decode([k]) for k in self.source_tokens(source, "replace").tolist()]
        written = [*(self.target_tokenizer.decode([k]) for k in tokens), "End"]
        return Attention(self.attended(model, source, tokens), read, written)

    def text_of(self, model: Translator, source: str, tokens: Sequence[int]) -> str:
        """The text of a translation; with `model.copy_unknown`, an `<unk>` is the source word that it attended to most."""
        tokenizer = self.target_tokenizer
        if not self.settings.model.copy_unknown or not isinstance(tokenizer, Words) or 0 not in tokens:
            return tokenizer.decode(tokens)
        most = self.attended(model, source, tokens).argmax(-1).tolist()
        read = list(split_words(source))
        words = [read[most[k]] if tokenizer.tokens[i] == UNKNOWN else tokenizer.tokens[i] for k, i in enumerate(tokens)]
        names = list(dict.fromkeys(words))
        return Words(names).decode([1 + names.index(word) for word in words])

    def _texts(self, model: Translator, part: Sequence[Pair]) -> list[tuple[str, Sequence[int]]]:
        """The best translation of each source, as text and as tokens."""
        found = self.search(model, [pair.source for pair in part], unknown="replace")
        return [
            (self.text_of(model, pair.source, one.tokens), one.tokens) for pair, (one,) in zip(part, found, strict=True)
        ]

    def glimpse(self, model: Translator) -> str:
        pair = self.pairs.valid[0]
        ((text, _),) = self._texts(model, [pair])
        return f"{pair.source} → {text} ({pair.target})"

    def examples(self, model: Translator) -> Examples:
        part = (self.pairs.test or self.pairs.valid)[:SHOWN]
        texts = self._texts(model, part)
        rows = [(pair.source, text, pair.target) for pair, (text, _) in zip(part, texts, strict=True)]
        return Examples(("source", "predicted", "true"), rows, f"translate RUN {rows[0][0]!r}")

    def evaluate(self, model: Translator, data: str | None = None, *, baselines: bool = True) -> Evaluation:
        """Nats per target token with its end, the share that is exactly right, edits per pair, and BLEU where it can be had."""
        part, name = (self.pairs.test, "test") if self.pairs.test else (self.pairs.valid, "validation")
        if data is not None:
            part, name = read_pairs(data), data
        made = evaluate_pairs(model, self.make_batches(part, training=False))
        found = self._texts(model, part)
        texts, targets = [text for text, _ in found], [pair.target for pair in part]
        scores = {self.called: {"nats": made.nats} | self._text_scores(texts, targets, [tokens for _, tokens in found])}
        if baselines:
            scores |= {called: {"nats": nats} for called, nats in self._counted(part).items()}
            scores["the source itself"] = self._text_scores([pair.source for pair in part], targets)
        return Evaluation(name, made.tokens, scores, self.units)

    def _text_scores(
        self, texts: list[str], targets: list[str], tokens: Sequence[Sequence[int]] | None = None
    ) -> dict[str, float]:
        """What does not need probabilities. `tokens`: of the texts, where they are known."""
        true = [self.target_tokenizer.encode(target, "replace").tolist() for target in targets]
        written = tokens or [self.target_tokenizer.encode(text, "replace").tolist() for text in texts]
        edits = sum(edit_distance(given, wanted) for given, wanted in zip(written, true, strict=True))
        row = {"exact match": exact_match(texts, targets), "edit distance": edits / len(targets)}
        shared = bleu(texts, targets)
        return row if shared is None else row | {"BLEU": shared}

    def _counted(self, part: Sequence[Pair]) -> dict[str, float]:
        """Nats per target token of the best Markov model, which does not read the source."""
        learned, valid, held_out = (self._targets(each) for each in (self.pairs.train, self.pairs.valid, part))
        markov = best_markov(learned, valid, self.target_tokenizer.size)
        return {f"markov order {markov.order}, without the source": markov.score(held_out)}

    def compare(self, model: Translator) -> Comparison:
        """Nats per target token."""
        valid = self.pairs.valid
        nats = evaluate_pairs(model, self.make_batches(valid, training=False)).nats
        advice = "Try more training.steps, a smaller model.hidden_size, or more pairs."
        return Comparison("nats", False, nats, self._counted(valid), advice)


def _parts(split: PairSplit) -> tuple[list[Pair], list[Pair], list[Pair]]:
    return split.train, split.valid, split.test


def pair_loss(model: Translator, batch: PairBatch) -> Float[Tensor, ""]:
    """−log P(Y | X), summed over the batch; with −log P(τ | X) where the length is learned too."""
    device = model.output.weight.device
    here = batch.to(device)
    reading = model.read(here.source, here.source_lengths)
    assert here.lengths is not None
    logits = model.decode(reading, here.inputs, here.lengths).logits
    total = weighted_nll(logits, here.targets, batch_weights(here, "mean", device, logits.dtype))
    if model.length is not None:
        total = total + cross_entropy(model.length_logits(reading), send(here.lengths - 1, device), reduction="sum")
    return total


def evaluate_pairs(model: Translator, batches: Pairs, ranks: Ranks = Ranks()) -> Score:
    """One pass over pairs: nats per target token, the end of each among them."""
    device = model.output.weight.device

    def run(batch: PairBatch) -> Tensor:
        assert batch.lengths is not None
        here = batch.to(device)
        logits: Tensor = model(here.source, here.source_lengths, here.inputs, here.lengths)
        return logits

    return evaluate_whole(model, batches, run, ranks)


def choose_lengths(
    logits: Float[Tensor, "N lengths"], how: str, generator: torch.Generator | None = None
) -> Int[Tensor, " N"]:
    """τ for each source: the most probable, or drawn from P(τ | X)."""
    if choose_from("lengths", how, ("predicted", "drawn")) == "predicted":
        return logits.argmax(-1)
    return draw_numbers(logits.float().softmax(-1).cpu(), generator).to(logits.device)


def _padded(sequences: Sequence[Tensor], device: torch.device) -> tuple[Int[Tensor, "B S"], Int[Tensor, " B"]]:
    lengths = torch.tensor([len(each) for each in sequences], device=device)
    return torch.nn.utils.rnn.pad_sequence(list(sequences), batch_first=True).to(device), lengths


def _training(steps: int, **settings: Any) -> Training:
    every = 500 if steps > 1000 else 200
    return Training(steps=steps, truncation="none", validate_every=every, save_every=every, **settings)


@recipe(TranslationTask)
def translate() -> TranslateSettings:
    """any file of pairs: data.path=FILE (two columns), or data.path=FILE data.target_path=FILE"""
    return TranslateSettings(
        data=TranslateData(tokens="word", min_count=2),
        model=TranslateModelSettings(cell="gru", hidden_size=256, embedding_size=128, dropout=0.2, context="attention"),
        training=_training(4000, batch_size=64, learning_rate=2e-3, average="ema:0.999"),
    )


@translate.rule
def translate_rule(task: TranslationTask) -> Iterator[Derived]:
    """few pairs are passed over thirty times, many as often as 12,000 steps allow; where too many words of validation pairs were
    never learned, tokens are characters"""
    pairs = len(task.pairs.train)
    if task.settings.data.tokens == "word" and "data.tokens" not in (task.given or ()):
        unknown = max(task.unknown_share(side) for side in (0, 1))
        if unknown > UNKNOWN_SHARE:
            yield Derived("data.tokens", "char", f"{unknown:.0%} of the words of validation pairs were never learned")
    steps = min(12_000, max(2000, PASSES * pairs // task.settings.training.batch_size))
    if steps != task.settings.training.steps:
        yield Derived("training.steps", steps, f"{pairs:,} pairs")


@recipe(TranslationTask)
def dates() -> TranslateSettings:
    """dates as people write them, in 31 formats, to 2021-05-04; needs no download"""
    return TranslateSettings(
        data=TranslateData(task="dates", count=20_000),
        model=TranslateModelSettings(cell="gru", hidden_size=128, embedding_size=32, context="attention"),
        training=_training(800, batch_size=64, learning_rate=3e-3),
    )


@recipe(TranslationTask)
def addition() -> TranslateSettings:
    """sums of two numbers up to 999, written digit by digit; needs no download"""
    return TranslateSettings(
        data=TranslateData(task="addition", count=50_000),
        model=TranslateModelSettings(cell="lstm", hidden_size=128, embedding_size=32, context="both"),
        training=_training(4000, batch_size=128, learning_rate=5e-3),
    )
