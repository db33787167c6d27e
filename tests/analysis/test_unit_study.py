"""Texts as a model reads them, dealt fairly; and a network made by hand whose unit counts brackets."""

import numpy as np
import pytest
import torch

from recurra.analysis.neurons import Unit
from recurra.analysis.source_labels import python_labels
from recurra.analysis.unit_study import Piece, Reading, deal, holds, read_pieces, read_texts, study_units
from recurra.data.tokenizers import build_tokenizer
from recurra.errors import DataError, OptionError
from recurra.models.language import LanguageModel
from recurra.tasks.unit_search import UnitReading
from tests.helpers import make_language_model


def test_whole_texts_go_to_one_half() -> None:
    first, second = deal([f"{k} " * 1000 for k in range(10)], 8000, 1000)
    assert len(first) == len(second) == 4
    assert not {piece.number for piece in first} & {piece.number for piece in second}
    assert all(piece.characters == slice(0, 1000) for piece in first)
    one, other = deal(["abcdefgh" * 10], 70, 20)
    assert [piece.characters for piece in one] == [slice(0, 20), slice(20, 35)]
    assert [piece.characters for piece in other] == [slice(35, 55), slice(55, 70)]
    with pytest.raises(DataError, match="more text"):
        deal(["a"], 100)


@pytest.mark.parametrize("kind", ["char", "byte", "word", "bpe"])
def test_a_symbol_has_the_label_of_its_last_character(kind: str) -> None:
    text = "f('é', \"b c\")  # d\n" * 3
    tokenizer = build_tokenizer(kind, [text], max_size=300 if kind == "bpe" else None)
    reading = read_texts(tokenizer, [text], python_labels)
    assert "".join(reading.tokens(0)) == text[: int(reading.spans[0][-1])]
    values = reading.labels["inside-comment"].tolist()
    assert len(values) == int(reading.lengths[0]) == len(tokenizer.encode(text)) - 1
    for end, value in zip(reading.spans[0].tolist(), values, strict=True):
        assert value == python_labels(text)["inside-comment"][end - 1]


def test_sequences_have_a_start_that_reads_nothing() -> None:
    tokenizer = build_tokenizer("char", ["ab", "b"], sequences=True)
    reading = read_texts(tokenizer, ["ab", "b"])
    assert reading.inputs[0].tolist() == [tokenizer.start, 1, 2]
    assert reading.targets[1, :2].tolist() == [2, tokenizer.end]
    assert reading.lengths.tolist() == [3, 2]
    assert reading.tokens(0) == ["", "a", "b"]


def test_given_labels_go_with_their_piece() -> None:
    texts = ["abcdefghij", "", "klm"]
    tokenizer = build_tokenizer("char", texts)
    columns = {"place": [np.arange(10, dtype=np.float32), np.zeros(0, np.float32), np.arange(10, 13, dtype=np.float32)]}
    pieces = [Piece(1, slice(0, 4)), Piece(0, slice(4, 8)), Piece(2, slice(0, 2))]
    reading = read_pieces(tokenizer, texts, pieces, columns=columns)
    assert reading.texts == ["efgh", "kl"]
    assert reading.labels["place"].tolist() == [4, 5, 6, 10]  # the last symbol of each is a target only


def test_labels_of_the_wrong_size_are_refused() -> None:
    tokenizer = build_tokenizer("char", ["abc"])
    with pytest.raises(OptionError, match="each of 3 characters"):
        read_texts(tokenizer, ["abc"], lambda text: {"x": [1.0]})  # type: ignore[dict-item,list-item]


def test_where_a_label_holds() -> None:
    assert holds(torch.tensor([0.0, 0.0, 1.0])).tolist() == [False, False, True]
    assert holds(torch.tensor([0.0, 1.0, 1.0])).tolist() == [False, True, True]
    assert holds(torch.tensor([3.0, 1.0, 2.0])).tolist() == [True, False, False]


def make_texts(count: int, seed: int) -> list[str]:
    random = torch.Generator().manual_seed(seed)
    texts = []
    for _ in range(count):
        depth, text = 0, ""
        for draw in torch.rand(400, generator=random).tolist():
            if draw < 0.08 and depth < 4:
                text, depth = text + "(", depth + 1
            elif draw < 0.16 and depth > 0:
                text, depth = text + ")", depth - 1
            else:
                text += "a"
        texts.append(text)
    return texts


def counting_model(size: int) -> LanguageModel:
    """Unit 0 of an Elman network that is linear: up at an opening bracket, down at a closing one."""
    model = make_language_model(size, "elman(activation=linear)", 4, embedding_size=4)
    direction = model.recurrent.stack[0][0]
    with torch.no_grad():
        for values in (direction.W, direction.b, direction.U, model.embedding.weight):
            values.zero_()  # type: ignore[union-attr]
        direction.U[0, 0] = 1.0  # type: ignore[index]
        direction.W[0, 0] = 1.0
        model.embedding.weight[1, 0], model.embedding.weight[2, 0] = 1.0, -1.0  # ( and ), after <unk>
        direction.W[1, 1] = 1.0
        model.embedding.weight[3, 1] = 1.0  # unit 1 says whether it reads an a
    return model


def readings() -> tuple[list[Reading], int]:
    texts = make_texts(12, 0)
    tokenizer = build_tokenizer("char", texts)
    return [read_pieces(tokenizer, texts, part, python_labels) for part in deal(texts, 10_000)], tokenizer.size


def test_a_unit_that_counts_brackets_is_found_and_missed() -> None:
    (chosen, scored), size = readings()
    untrained = make_language_model(size, "elman(activation=linear)", 4, embedding_size=4)
    study = study_units(counting_model(size), untrained, chosen, scored)
    finding = study.finding("bracket-depth")
    assert finding.is_found
    assert str(finding.best.unit) == "0.h.0"
    assert finding.best.score == pytest.approx(1, abs=1e-4)
    assert "inside-string" in study.left_out
    assert study.ablations["bracket-depth"].value == pytest.approx(
        float(scored.labels["bracket-depth"].mean()), abs=1e-3
    )


def test_what_one_unit_follows_stands_beside_the_controls() -> None:
    (chosen, scored), size = readings()
    untrained = make_language_model(size, "elman(activation=linear)", 4, embedding_size=4)
    study = study_units(counting_model(size), untrained, chosen, scored)
    best = study.tracked(Unit(0, False, "h", 0))[0]
    assert best.label == "bracket-depth"
    assert best.is_tracked
    assert best.score == pytest.approx(study.finding("bracket-depth").best.score, abs=1e-4)
    other = {each.label: each for each in study.tracked(Unit(0, False, "h", 1))}["bracket-depth"]
    assert not other.is_tracked
    assert {each.score for each in study.tracked(Unit(0, False, "h", 3))} == {0.0}  # a unit that never changes


def test_the_contexts_of_a_unit_are_where_it_is_highest_and_lowest() -> None:
    (_, scored), size = readings()
    model, unit = counting_model(size), Unit(0, False, "h", 0)
    shown = UnitReading(unit, scored, scored.record(model), None)
    highest, lowest = shown.contexts(count=4, width=20)
    values = shown.activity.of(unit)
    assert highest[0].value == pytest.approx(float(values.max()))
    assert lowest[0].value == pytest.approx(float(values.min()))
    assert len(highest) == len(lowest) == 4
    for each in (*highest, *lowest):
        assert len(each.token) == 1
        depths = {
            text[: start + len(each.before) + 1].count("(") - text[: start + len(each.before) + 1].count(")")
            for text in scored.texts
            for start in find_all(text, each.before + each.token + each.after)
        }
        assert round(each.value) in depths


def find_all(text: str, part: str) -> list[int]:
    return [at for at in range(len(text)) if text.startswith(part, at)]


def test_the_loss_without_a_unit_is_the_loss_where_it_mattered() -> None:
    (chosen, scored), size = readings()
    model = counting_model(size)
    with torch.no_grad():  # it says ( as surely as it is deep: without its unit, it is wrong there alone
        model.output.weight.zero_()
        model.output.weight[3, 0] = 3.0
    lost = study_units(model, make_language_model(size, "elman(activation=linear)", 4), chosen, scored).ablations[
        "bracket-depth"
    ]
    assert lost.where != pytest.approx(0, abs=1e-3)
    again = study_units(
        model, make_language_model(size, "elman(activation=linear)", 4), chosen, scored, ["bracket-depth"]
    )
    assert again.ablations["bracket-depth"] == lost
    with pytest.raises(OptionError, match="bracket-depth"):
        study_units(model, model, chosen, scored, ["braket-depth"])
