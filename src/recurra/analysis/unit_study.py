"""The units of a language model over the texts that it reads: which of them follow what, and what is lost without them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from recurra.analysis.ablation import Ablation, losses
from recurra.analysis.neurons import MARGIN, Activity, Finding, Unit, record_activity, search
from recurra.analysis.source_labels import Labeller, Values, text_labels
from recurra.data.tokenizers import Tokenizer
from recurra.errors import DataError, OptionError, choose_from
from recurra.models.language import LanguageModel
from recurra.results import Result, Table
from recurra.types import Int

PIECE = 4000
"""Characters of a text that are read, from its start."""
ABLATED = 1000
"""Steps of each text over which losses without a unit are compared."""


@dataclass(frozen=True)
class Piece:
    """Where a piece of some texts is: the number of the text, and its characters."""

    number: int
    characters: slice


def deal(texts: Sequence[str], size: int, piece: int = PIECE) -> tuple[list[Piece], list[Piece]]:
    """About `size` characters of some texts in two halves: to choose units on, and to score them on.

    Whole texts go to one half or the other, each cut to its first `piece` characters; a single text is cut in the middle.
    """
    if len(texts) == 1:
        end = min(size, len(texts[0]))
        parts = [
            [Piece(0, slice(k, min(k + piece, stop))) for k in range(start, stop, piece)]
            for start, stop in ((0, end // 2), (end // 2, end))
        ]
    else:
        long = [k for k, text in enumerate(texts) if len(text) >= 1000]
        known = long if len(long) > 3 else [k for k, text in enumerate(texts) if text]
        usual = sum(min(piece, len(texts[k])) for k in known) / max(1, len(known))
        count = min(len(known), max(2, round(size / max(1.0, usual))))
        some = [Piece(known[k * len(known) // count], slice(0, piece)) for k in range(count)]
        parts = [some[::2], some[1::2]]
    if not all(any(len(texts[each.number][each.characters]) > 1 for each in part) for part in parts):
        raise DataError("units are chosen on one part of a text and scored on another: give more text.")
    return parts[0], parts[1]


@dataclass(frozen=True, eq=False)
class Reading:
    """Texts as a model reads them, with labels for every token that is read, text after text.

    - `spans`: for each text, how many of its characters have been read after each token; the start of a sequence reads none.
    """

    texts: list[str]
    spans: list[Int[Tensor, " n"]]
    inputs: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    lengths: Int[Tensor, " B"]
    labels: dict[str, Tensor]

    @property
    def inside(self) -> Tensor:
        """Which places of `inputs` are read."""
        return torch.arange(self.inputs.shape[1]) < self.lengths[:, None]

    def tokens(self, k: int) -> list[str]:
        """The text of each token that is read of one text; of the start of a sequence, nothing."""
        return [self.texts[k][begin:end] for begin, end in pairwise([0, *self.spans[k].tolist()])]

    def record(self, model: LanguageModel, *, gates: bool = True) -> Activity:
        """The model's units over these texts."""
        with torch.no_grad():
            return record_activity(model.recurrent, model.embed(self.inputs), self.lengths, gates=gates)


def read_pieces(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    pieces: Sequence[Piece],
    labeller: Labeller | None = None,
    columns: Mapping[str, Sequence[Values]] | None = None,
) -> Reading:
    """Windows of texts as tokens, with the labels that are computed for each and those given for all characters of all texts."""
    given = [
        {name: values[piece.number][piece.characters] for name, values in (columns or {}).items()} for piece in pieces
    ]
    return read_texts(tokenizer, [texts[each.number][each.characters] for each in pieces], labeller, given)


def read_texts(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    labeller: Labeller | None = None,
    given: Sequence[Mapping[str, Values]] | None = None,
) -> Reading:
    """Texts as tokens; the label of a token is that of its last character.

    - `given`: further labels of each text, which are not computed from it.
    """
    further = [{} for _ in texts] if given is None else given
    known = [
        (text, own)
        for text, own in zip(texts, further, strict=True)
        if len(tokenizer.ends(text)) > 1 or (text and tokenizer.start is not None)
    ]
    texts, lines, spans, labels = [text for text, _ in known], [], [], dict[str, list[Tensor]]()
    for text, own in known:
        ids, span = tokenizer.encode(text, unknown="replace"), tokenizer.ends(text)
        if tokenizer.start is not None and tokenizer.end is not None:
            ids = torch.cat([torch.tensor([tokenizer.start]), ids, torch.tensor([tokenizer.end])])
            span = torch.cat([torch.tensor([0]), span])
        else:
            span = span[:-1]  # the last token is a target only
        lines.append(ids)
        spans.append(span)
        computed = {} if labeller is None else labeller(text)
        for name, values in _checked({**computed, **own}, text).items():
            labels.setdefault(name, []).append(values[(span - 1).clamp(min=0)])
    if not lines:
        raise DataError("there is no text of two tokens to read. Give more.")
    padded = pad_sequence(lines, batch_first=True)
    lengths = torch.tensor([len(line) - 1 for line in lines])
    return Reading(
        texts,
        spans,
        padded[:, :-1].contiguous(),
        padded[:, 1:].contiguous(),
        lengths,
        {name: torch.cat(values) for name, values in labels.items()},
    )


def _checked(given: Mapping[str, object], text: str) -> dict[str, Tensor]:
    found = {}
    for name, values in given.items():
        found[name] = torch.as_tensor(values, dtype=torch.float32)
        if found[name].shape != (len(text),) or not bool(found[name].isfinite().all()):
            raise OptionError(
                f"label {name!r}: a number for each of {len(text)} characters is needed; got {list(found[name].shape)}."
            )
    return found


@dataclass(frozen=True)
class Tracked:
    """The correlation of a unit with a label, without its sign, beside what the best unit reaches for shifted labels, and the
    best unit of the untrained network for the same label."""

    label: str
    score: float
    shifted_labels: float
    untrained: float

    @property
    def is_tracked(self) -> bool:
        """Whether the unit follows the label: clearly better than both controls."""
        return self.score >= max(self.shifted_labels, self.untrained) + MARGIN


@dataclass(frozen=True, eq=False)
class UnitStudy(Result):
    """The units that follow each label, the losses without the best ones, and the labels that do not vary, with the reason.

    - `scored`, `activity`: the texts on which units were scored, and the values of all units there. `chosen_size`: on how many
      tokens they were chosen.
    """

    findings: list[Finding]
    ablations: dict[str, Ablation]
    left_out: dict[str, str]
    scored: Reading
    activity: Activity
    chosen_size: int

    def finding(self, label: str) -> Finding:
        return next(each for each in self.findings if each.label == label)

    @property
    def found(self) -> list[Finding]:
        """The labels that a single unit follows, the best first."""
        return sorted((each for each in self.findings if each.is_found), key=lambda each: -each.best.score)

    @property
    def summary(self) -> str:
        """In a sentence or two, which labels single units follow."""
        found = [f"{each.label} ({each.best.unit}, {each.best.score:.2f})" for each in self.findings if each.is_found]
        missing = [each.label for each in self.findings if not each.is_found]
        first = f"Single units follow {', '.join(found)}." if found else "No single unit follows any of the labels."
        return first + (f" None follows {', '.join(missing)}." if found and missing else "")

    def tracked(self, unit: Unit) -> list[Tracked]:
        """How well one unit follows each label on the texts that units were scored on, beside both controls; the best first."""
        values = self.activity.of(unit)
        found = []
        for each in self.findings:
            labels = self.scored.labels[each.label]
            score = (
                abs(float(torch.corrcoef(torch.stack([values, labels]))[0, 1])) if float(values.std()) > 1e-6 else 0.0
            )
            found.append(Tracked(each.label, score, each.trained.by_chance, each.untrained.hits[0].score))
        return sorted(found, key=lambda one: -one.score)

    def table(self) -> Table:
        return Table(COLUMNS, [self._row(each) for each in self.findings])

    def _row(self, finding: Finding) -> tuple[str, ...]:
        best, lost = finding.best, self.ablations.get(finding.label)
        trained, untrained = finding.trained, finding.untrained
        scores = (trained.by_chance, untrained.hits[0].score, trained.probe.score, trained.probe_by_chance)
        return (
            finding.label,
            str(best.unit) if finding.is_found else "none",
            f"{best.score:.2f}",
            "—" if best.auc is None else f"{best.auc:.2f}",
            *(f"{score:.2f}" for score in (*scores, untrained.probe.score)),
            *(["—", "—"] if lost is None else [f"{lost.where:+.3f}", f"{lost.elsewhere:+.3f}"]),
        )

    def __str__(self) -> str:
        left_out = [f"{name} is left out: {why}." for name, why in self.left_out.items()]
        return "\n".join([str(self.table()), self.summary, *left_out])

    def to_json(self) -> dict[str, Any]:
        return {"labels": [self._plain(each) for each in self.findings], "left_out": self.left_out}

    def _plain(self, finding: Finding) -> dict[str, Any]:
        trained, untrained, lost = finding.trained, finding.untrained, self.ablations.get(finding.label)
        return {
            "label": finding.label,
            "found": finding.is_found,
            "units": [{"unit": str(hit.unit), "score": hit.score, "auc": hit.auc} for hit in trained.hits],
            "shifted_labels": trained.by_chance,
            "untrained": untrained.hits[0].score,
            "probe": {
                "units": [str(unit) for unit in trained.probe.units],
                "score": trained.probe.score,
                "shifted_labels": trained.probe_by_chance,
                "untrained": untrained.probe.score,
            },
            "loss_without": None if lost is None else {"where": lost.where, "elsewhere": lost.elsewhere},
        }


COLUMNS = (
    "label",
    "unit",
    "score",
    "ROC AUC",
    "shifted labels",
    "untrained",
    "five units",
    "shifted labels",
    "untrained",
    "loss inside",
    "loss outside",
)


def find_units(
    model: LanguageModel,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    labels: Labeller = text_labels,
    *,
    untrained: LanguageModel | None = None,
    size: int = 100_000,
    **options: Any,
) -> UnitStudy:
    """Single units of a language model that follow labels of its text, chosen on one part and scored on another.

    - `model`: anything with `embed` and `recurrent`. `labels`: a text to a value for each character, by name.
    - `untrained`: the control; otherwise the same network with the entries of each weight shuffled.
    - `options`: as for `study_units`: `labels`, `gates`, `ablated`, `seed`.

    ```python
    tokenizer = rc.data.build_tokenizer("char", ["(a(b)c)"])
    model = rc.models.LanguageModel(tokenizer.size, rc.Recurrent("gru", 4, 8))
    study = rc.find_units(model, tokenizer, ["(a(b)c) " * 40, "((a)b) " * 40])
    ```
    """
    chosen, scored = (read_pieces(tokenizer, texts, part, labels) for part in deal(texts, size))
    return study_units(model, untrained or _shuffled(model), chosen, scored, **options)


@torch.no_grad()
def _shuffled(model: LanguageModel) -> LanguageModel:
    made, noise = copy.deepcopy(model), torch.Generator().manual_seed(0)
    for weight in made.parameters():
        weight.copy_(weight.flatten()[torch.randperm(weight.numel(), generator=noise)].view_as(weight))
    return made


def study_units(
    model: LanguageModel,
    untrained: LanguageModel,
    chosen: Reading,
    scored: Reading,
    labels: Sequence[str] | None = None,
    *,
    gates: bool = True,
    ablated: int = ABLATED,
    seed: int = 0,
) -> UnitStudy:
    """For each label the units that follow it best, beside both controls; and what the best one is good for.

    - `untrained`: the same network before training.
    - `labels`: those to look for; otherwise all that the readings have.
    - `gates`: look among gates too, not only among states.
    - `ablated`: how many steps of each text are read without the best units.
    """
    names = list(chosen.labels) if labels is None else [choose_from("label", each, chosen.labels) for each in labels]
    parts = [{name: reading.labels[name] for name in names} for reading in (chosen, scored)]
    constant = [name for name in names if any(not bool((part[name] != part[name][0]).any()) for part in parts)]
    left_out = {name: f"it is {float(parts[0][name][0]):g} everywhere in a part of this text" for name in constant}
    here, there = ({name: part[name] for name in names if name not in constant} for part in parts)
    activity = scored.record(model, gates=gates)
    findings = []
    if here:
        trained = search(chosen.record(model, gates=gates), here, activity, there, seed=seed)
        first, second = (reading.record(untrained, gates=gates) for reading in (chosen, scored))
        before = search(first, here, second, there, seed=seed)
        findings = [Finding(name, trained[name], before[name]) for name in trained]
    ablations = _ablate_all(model, scored, activity, [each for each in findings if each.is_found], ablated)
    return UnitStudy(findings, ablations, left_out, scored, activity, int(chosen.lengths.sum()))


def holds(labels: Tensor) -> Tensor:
    """Where a label holds: where it is above its median, which for a yes or no that is rare is where it is yes."""
    middle = labels.median()
    return labels > middle if bool((labels > middle).any()) else labels == middle


def _ablate_all(
    model: LanguageModel, scored: Reading, activity: Activity, findings: list[Finding], steps: int
) -> dict[str, Ablation]:
    """Each label's best unit set to its mean; the losses are compared over the first steps of each text."""
    inputs, targets, inside = (each[:, :steps] for each in (scored.inputs, scored.targets, scored.inside))
    units = {each.best.unit: float(activity.of(each.best.unit).mean()) for each in findings}
    if not units:
        return {}
    intact, *without = losses(model, inputs, targets, list(units.items()))
    made = {}
    for finding in findings:
        unit = finding.best.unit
        where = torch.zeros(scored.inputs.shape, dtype=torch.bool)
        where[scored.inside] = holds(scored.labels[finding.label])
        where = where[:, :steps]
        lost = without[list(units).index(unit)] - intact
        parts = (inside & where, inside & ~where)
        rises = (float(lost[part].mean()) if bool(part.any()) else 0.0 for part in parts)
        made[finding.label] = Ablation(unit, units[unit], *rises)
    return made
