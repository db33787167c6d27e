"""Pairs of sequences: the settings, and how they become data, an encoder with its decoder, and a trainer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from recurra.data.pair_tasks import synthetic_dates, synthetic_sums
from recurra.data.pairs import Pair, PairBatch, Pairs, PairSplit, read_pairs, split_pairs
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
from recurra.errors import DataError, OptionError, choose_from
from recurra.layers.attention import KINDS
from recurra.metrics.matching import bleu, edit_distance, exact_match
from recurra.models.markov import best_markov
from recurra.models.sampling import Choice
from recurra.models.search import Ending, Found, beam_search, draw
from recurra.models.translate import CONTEXTS, Translation, Translator
from recurra.tasks.task import (
    SHOWN,
    Evaluation,
    Examples,
    Model,
    Probe,
    Question,
    Recipe,
    Settings,
    Task,
    check_shares,
    check_whole,
)
from recurra.training.distributed import Ranks
from recurra.training.evaluation import Score, evaluate_whole, judging
from recurra.training.loop import Trainer, Training
from recurra.training.objectives import batch_weights, weighted_nll
from recurra.types import Float, Int, setting

TASKS = {"dates": synthetic_dates, "addition": synthetic_sums}
TOGETHER = 256
"""How many sources are translated side by side."""


@dataclass(frozen=True)
class TranslateData:
    path: str | None = setting(None, "a file with two columns (tab, or comma in .csv), or the sources, one per line")
    target_path: str | None = setting(None, "the targets, one per line; none: they are the second column of data.path")
    task: str | None = setting(None, "pairs that are made up: dates or addition; none: data.path")
    count: int = setting(20_000, "how many pairs are made up, all parts together")
    tokens: str = setting("char", "what a symbol is, on both sides: byte, char, word or bpe")
    min_count: int = setting(1, "symbols seen less often become <unk>")
    max_symbols: int | None = setting(None, "keep this many symbols on each side, the most frequent; pieces of bpe")
    valid: float = setting(0.05, "the share of the sources that chooses the model")
    test: float = setting(0.1, "the share of the sources that is kept for the last evaluation")

    def check(self) -> None:
        choose_from("data.tokens", self.tokens, ("byte", "char", "word", "bpe"))
        if self.task is not None:
            choose_from("data.task", self.task, TASKS)
            if self.path is not None or self.target_path is not None:
                raise OptionError(
                    f"data.task={self.task} makes up its pairs: leave out data.path and data.target_path."
                )
        check_shares(self.valid, self.test)
        for name in ("count", "min_count", "max_symbols"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise OptionError(f"data.{name} must be at least 1; got {getattr(self, name)}.")


@dataclass(frozen=True)
class TranslateModel(Model):
    decoder_cell: str | None = setting(None, "the decoder's cell; none: as model.cell")
    bidirectional: bool = setting(True, "the encoder reads in both directions")
    context: str = setting("attention", "how the decoder hears of the source: input, state, both or attention")
    attention: str = setting("additive", "additive or dot")
    predict_length: bool = setting(False, "also learn how long the target is, before its first symbol: P(τ | X)")
    copy_unknown: bool = setting(False, "an <unk> that is said becomes the source word most attended to (word tokens)")

    def check(self) -> None:
        super().check()
        choose_from("model.context", self.context, CONTEXTS)
        choose_from("model.attention", self.attention, KINDS)


@dataclass(frozen=True)
class TranslateSettings(Settings):
    data: TranslateData = field(default_factory=TranslateData)
    model: TranslateModel = field(default_factory=TranslateModel)

    def check(self) -> None:
        super().check()
        check_whole(self.training, "pairs")
        if self.model.copy_unknown and (self.data.tokens != "word" or self.model.context != "attention"):
            raise OptionError("model.copy_unknown needs data.tokens=word and model.context=attention.")

    def unused(self) -> dict[str, str]:
        found = super().unused()
        if self.model.context != "attention":
            found["model.attention"] = f"there is none, for model.context={self.model.context}"
        if self.data.task is None:
            found["data.count"] = "it is for pairs that are made up, and no data.task is given"
        return found


class TranslationTask(Task[Translator]):
    """An encoder and a decoder on pairs. With the vocabularies of a run folder, the pairs are not needed to translate."""

    factorisation = (
        "A product of conditionals, given the source: P(Y | X) = Π P(yt | X, y1 … yt−1). Each output is fed back."
    )

    verbs = ("evaluate", "translate")

    def __init__(self, recipe: TranslateSettings, ranks: Ranks = Ranks(), vocabulary: dict[str, Any] | None = None):
        super().__init__(recipe, ranks)
        self._vocabulary = vocabulary

    # -- data --------------------------------------------------------------------------------------------------------

    @cached_property
    def pairs(self) -> PairSplit:
        data, seed = self.settings.data, self.settings.seed
        if data.task is not None:
            pairs = TASKS[data.task](data.count, seed)
        elif data.path is not None:
            pairs = read_pairs(data.path, data.target_path)
        else:
            raise OptionError("this recipe reads pairs: give it a file with two columns with data.path=FILE.")
        split = split_pairs(pairs, data.valid, data.test, seed)
        if not split.train or not split.valid:
            raise DataError(
                f"{len(pairs)} pairs leave none to train on or none to validate (data.valid={data.valid}). Give more, or "
                "another share."
            )
        return split

    @cached_property
    def vocabulary(self) -> dict[str, Any]:
        """Both tokenizers, and how long the longest target is."""
        if self._vocabulary is not None:
            return self._vocabulary
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

    @cached_property
    def source_tokenizer(self) -> Tokenizer:
        return self._tokenizer("source")

    @cached_property
    def target_tokenizer(self) -> Tokenizer:
        return self._tokenizer("target")

    def _tokenizer(self, side: str) -> Tokenizer:
        try:
            return tokenizer_from_json(self.vocabulary[side])
        except KeyError:
            raise DataError(f"vocabulary.json has no {side!r}: it is not of a run that learned pairs.") from None

    @property
    def _ends(self) -> tuple[int, int]:
        start, end = self.target_tokenizer.start, self.target_tokenizer.end
        assert start is not None
        assert end is not None
        return start, end

    @property
    def about_data(self) -> str:
        sizes = f"{self.source_tokenizer.size} and {self.target_tokenizer.size}"
        return f"{len(self.pairs.train):,} pairs of {self.settings.data.tokens} symbols, vocabularies {sizes}"

    def make_batches(self, part: Sequence[Pair], *, training: bool) -> Pairs:
        return Pairs(
            list(zip(self._sources(part), self._targets(part), strict=True)),
            self.settings.training.batch_size if training else TOGETHER,
            seed=self.settings.seed,
            shuffle=training,
            rank=self.ranks.rank,
            world=self.ranks.world,
        )

    def _sources(self, part: Iterable[Pair]) -> list[Int[Tensor, " n"]]:
        return [self.source_tokenizer.encode(pair.source, "replace") for pair in part]

    def _targets(self, part: Iterable[Pair]) -> list[Int[Tensor, " n"]]:
        """The symbols of the targets, each with its start and its end."""
        start, end = (torch.tensor([symbol]) for symbol in self._ends)
        return [torch.cat([start, self.target_tokenizer.encode(pair.target, "replace"), end]) for pair in part]

    # -- model and training ------------------------------------------------------------------------------------------

    def make_model(self) -> Translator:
        model = self.settings.model
        return Translator(
            self.source_tokenizer.size,
            self.target_tokenizer.size,
            model.cell,
            model.hidden_size,
            decoder_cell=model.decoder_cell,
            bidirectional=model.bidirectional,
            context=model.context,
            attention=model.attention,
            longest=self.vocabulary["longest"] if model.predict_length else None,
            embedding_size=model.embedding_size,
            tied=model.tied,
            **self.model_options(),
        )

    def make_trainer(self, model: Translator) -> Trainer:
        valid = self.make_batches(self.pairs.valid, training=False)
        return Trainer(
            model,
            self.make_batches(self.pairs.train, training=True),
            self.settings.training,
            lambda judged: evaluate_pairs(judged, valid, self.ranks).nats,
            whole=pair_loss,
            bfloat16=self.settings.dtype == "bfloat16",
            ranks=self.ranks,
        )

    def about_model(self, model: Translator) -> str:
        settings = self.settings.model
        how = f"{settings.attention} attention" if settings.context == "attention" else f"context as {settings.context}"
        engine = model.decoder.explain(self.settings.training.batch_size).engine.name
        return f"{super().about_model(model)}, {how}, engine {engine}"

    def probe(self, model: Translator, steps: int) -> Probe:
        raise OptionError(
            f"{self.settings.name} learned pairs, which are read whole: recurra explain is for networks that read one sequence. "
            "See what it attends to with recurra translate --attention FILE.svg."
        )

    # -- translating -------------------------------------------------------------------------------------------------

    def translate(
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

        - `lengths`: `predicted` or `drawn`, where the model has learned P(τ | X); otherwise the end symbol ends a translation.
        - `limit`: the most symbols; twice as many as the longest target had that was learned, unless it is given.
        - `unknown`: what becomes of symbols that the vocabulary lacks, as for `Tokenizer.encode`.
        """
        encoded = [self.source_symbols(text, unknown) for text in texts]
        order = sorted(range(len(texts)), key=lambda k: len(encoded[k]))  # so that little is padded
        found: list[list[Found]] = [[]] * len(texts)
        start, end = self._ends
        limit = 2 * self.vocabulary["longest"] if limit is None else limit
        for at in range(0, len(order), TOGETHER):
            rows = order[at : at + TOGETHER]
            with judging(model):
                reading = model.read(*_padded([encoded[k] for k in rows], model.output.weight.device))
                taus = None if lengths is None else choose_lengths(model.length_logits(reading), lengths, generator)
                ending = Ending(limit, end, taus, stop_probability, (start,))
                asked = Translation(model, reading, start)
                if choice is None:
                    made = beam_search(asked, ending, beam, n_best=n_best, length_power=length_power)
                else:
                    drawn = [draw(asked, ending, choice, generator) for _ in range(n_best)]
                    made = [sorted(each, key=lambda one: -one.score) for each in zip(*drawn, strict=True)]
            for k, one in zip(rows, made, strict=True):
                found[k] = one
        return found

    def source_symbols(self, text: str, unknown: Unknown | None = None) -> Int[Tensor, " n"]:
        """A text as the encoder reads it."""
        if not text.strip():
            raise DataError("the text to translate is empty. Give at least one symbol.")
        return self.source_tokenizer.encode(text, unknown)

    def attended(self, model: Translator, text: str, symbols: Sequence[int]) -> Float[Tensor, "T S"]:
        """What each symbol of a translation, and its end, attended to."""
        if model.attention is None:
            raise OptionError(f"this model has no attention: model.context={self.settings.model.context}.")
        source, lengths = _padded([self.source_symbols(text, "replace")], model.output.weight.device)
        inputs = torch.tensor([[self._ends[0], *symbols]], device=source.device)
        with judging(model):
            weights = model.say(model.read(source, lengths), inputs).weights
        assert weights is not None
        return weights[0].cpu()

    def symbol_names(self, source: str, symbols: Sequence[int]) -> tuple[list[str], list[str]]:
        """What each symbol that was read is called, and each that was said, the end among them."""
        read = [self.source_tokenizer.decode([k]) for k in self.source_symbols(source, "replace").tolist()]
        return read, [*(self.target_tokenizer.decode([k]) for k in symbols), "End"]

    def text_of(self, model: Translator, source: str, symbols: Sequence[int]) -> str:
        """The text of a translation; with `model.copy_unknown`, an `<unk>` is the source word that it attended to most."""
        tokenizer = self.target_tokenizer
        if not self.settings.model.copy_unknown or not isinstance(tokenizer, Words) or 0 not in symbols:
            return tokenizer.decode(symbols)
        most = self.attended(model, source, symbols).argmax(-1).tolist()
        read = list(split_words(source))
        said = [read[most[k]] if tokenizer.tokens[i] == UNKNOWN else tokenizer.tokens[i] for k, i in enumerate(symbols)]
        names = list(dict.fromkeys(said))
        return Words(names).decode([1 + names.index(word) for word in said])

    def glimpse(self, model: Translator) -> str:
        pair = self.pairs.valid[0]
        ((found,),) = self.translate(model, [pair.source], unknown="replace")
        return f"{pair.source} → {self.text_of(model, pair.source, found.symbols)} ({pair.target})"

    def examples(self, model: Translator) -> Examples:
        part = (self.pairs.test or self.pairs.valid)[:SHOWN]
        found = self.translate(model, [pair.source for pair in part], unknown="replace")
        rows = [
            (pair.source, self.text_of(model, pair.source, one.symbols), pair.target)
            for pair, (one,) in zip(part, found, strict=True)
        ]
        return Examples(("source", "said", "true"), rows, f"translate RUN {rows[0][0]!r}")

    def evaluate(self, model: Translator, question: Question) -> Evaluation:
        if question.window is not None or question.dynamic is not None:
            raise OptionError("--window and --dynamic are for language models; this run learned pairs.")
        part, name = (self.pairs.test, "test") if self.pairs.test else (self.pairs.valid, "validation")
        if question.data is not None:
            part, name = read_pairs(question.data), question.data
        return self.score(model, part, name, baselines=question.baselines)

    def score(self, model: Translator, part: Sequence[Pair], name: str, *, baselines: bool = False) -> Evaluation:
        """Nats per target symbol with its end, the share that is exactly right, edits per pair, and BLEU where it can be had."""
        batches = self.make_batches(part, training=False)
        made = evaluate_pairs(model, batches)
        found = self.translate(model, [pair.source for pair in part], unknown="replace")
        texts = [self.text_of(model, pair.source, one.symbols) for pair, (one,) in zip(part, found, strict=True)]
        targets = [pair.target for pair in part]
        edits = sum(
            edit_distance(one.symbols, self.target_tokenizer.encode(target, "replace").tolist())
            for (one,), target in zip(found, targets, strict=True)
        )
        row = {"nats": made.nats, "exact match": exact_match(texts, targets), "edit distance": edits / len(part)}
        shared = bleu(texts, targets)
        scores = {self.called: row | ({} if shared is None else {"BLEU": shared})}
        if baselines:
            learned, valid, judged = (self._targets(each) for each in (self.pairs.train, self.pairs.valid, part))
            markov = best_markov(learned, valid, self.target_tokenizer.size)
            scores[f"markov order {markov.order}, without the source"] = {"nats": markov.score(judged)}
        return Evaluation(name, made.tokens, scores)


def pair_loss(model: Translator, batch: PairBatch) -> Float[Tensor, ""]:
    """−log P(Y | X), summed over the batch; with −log P(τ | X) where the length is learned too."""
    device = model.output.weight.device
    here = batch.to(device)
    reading = model.read(here.source, here.source_lengths)
    assert here.lengths is not None
    logits = model.say(reading, here.inputs, here.lengths).logits
    total = weighted_nll(logits, here.targets, batch_weights(here, "mean", device, logits.dtype))
    if model.length is not None:
        total = total + cross_entropy(model.length_logits(reading), send(here.lengths - 1, device), reduction="sum")
    return total


def evaluate_pairs(model: Translator, batches: Pairs, ranks: Ranks = Ranks()) -> Score:
    """One pass over pairs: nats per target symbol, the end of each among them."""
    device = model.output.weight.device

    def say(batch: PairBatch) -> Tensor:
        assert batch.lengths is not None
        here = batch.to(device)
        logits: Tensor = model(here.source, here.source_lengths, here.inputs, here.lengths)
        return logits

    return evaluate_whole(model, batches, say, ranks)


def choose_lengths(
    logits: Float[Tensor, "N lengths"], how: str, generator: torch.Generator | None = None
) -> Int[Tensor, " N"]:
    """τ for each source: the most probable, or drawn from P(τ | X)."""
    if choose_from("lengths", how, ("predicted", "drawn")) == "predicted":
        return logits.argmax(-1)
    return torch.multinomial(logits.float().softmax(-1).cpu(), 1, generator=generator)[:, 0].to(logits.device)


def _padded(sequences: Sequence[Tensor], device: torch.device) -> tuple[Int[Tensor, "B S"], Int[Tensor, " B"]]:
    lengths = torch.tensor([len(each) for each in sequences], device=device)
    return torch.nn.utils.rnn.pad_sequence(list(sequences), batch_first=True).to(device), lengths


RECIPES: dict[str, Recipe] = {
    "translate": Recipe(
        TranslateSettings(
            name="translate",
            data=TranslateData(tokens="word", min_count=2),
            model=TranslateModel(cell="gru", hidden_size=256, embedding_size=128, dropout=0.2, context="attention"),
            training=Training(
                steps=4000,
                batch_size=64,
                truncation="none",
                learning_rate=2e-3,
                average="ema:0.999",
                validate_every=500,
                save_every=500,
            ),
        ),
        "any file of pairs: data.path=FILE (two columns), or data.path=FILE data.target_path=FILE",
    ),
    "dates": Recipe(
        TranslateSettings(
            name="dates",
            data=TranslateData(task="dates", count=20_000),
            model=TranslateModel(cell="gru", hidden_size=128, embedding_size=32, context="attention"),
            training=Training(
                steps=800,
                batch_size=64,
                truncation="none",
                learning_rate=3e-3,
                validate_every=200,
                save_every=200,
            ),
        ),
        "dates as people write them, in 31 formats, to 2021-05-04; needs no download",
    ),
    "addition": Recipe(
        TranslateSettings(
            name="addition",
            data=TranslateData(task="addition", count=50_000),
            model=TranslateModel(cell="lstm", hidden_size=128, embedding_size=32, context="both"),
            training=Training(
                steps=4000,
                batch_size=128,
                truncation="none",
                learning_rate=5e-3,
                validate_every=500,
                save_every=500,
            ),
        ),
        "sums of two numbers up to 999, written digit by digit; needs no download",
    ),
}
