"""What is given as an object comes back from the file that it was written to."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays

from recurra.data.comma_separated import LARGEST
from recurra.data.events import read_log
from recurra.data.images import read_images
from recurra.data.in_memory import TAKES, write_data
from recurra.data.labelled import How, read_labelled
from recurra.data.number_table import read_table
from recurra.data.pairs import read_pairs
from recurra.data.rolls import read_rolls
from recurra.data.series import read_series, read_timed_series
from recurra.data.text import read_documents
from recurra.data.trees import json_tree, parse_expressions, read_trees
from recurra.errors import DataError, OptionError, RecurraError
from recurra.tasks.conditioned import read_classes

CHARACTERS = some.characters(exclude_categories=["Cs"], exclude_characters="\0\r")
TEXT = some.text(CHARACTERS, min_size=1).filter(str.strip)
LINE = TEXT.filter(lambda text: text.splitlines() == [text])
NAME = some.text(CHARACTERS, min_size=1).map(lambda text: " ".join(text.split())).filter(len)
NUMBER = some.floats(-LARGEST, LARGEST) | some.just(float("nan"))
ANY_TEXT = some.text(some.characters(exclude_categories=["Cs"]), min_size=1)  # JSON takes zero bytes too


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


def is_read(values: np.ndarray) -> bool:
    return bool((np.abs(values.astype(np.float64)) <= LARGEST).all())


def same(found: np.ndarray, wanted: np.ndarray) -> bool:
    return np.array_equal(np.asarray(found), np.asarray(wanted), equal_nan=True)


def ragged(channels: int) -> some.SearchStrategy[list[np.ndarray]]:
    shape = arrays.array_shapes(min_dims=1, max_dims=1, max_side=4).map(lambda shape: (*shape, channels))
    return some.lists(arrays.arrays(np.float64, shape, elements=NUMBER), min_size=1, max_size=4)


def labels_for(sequences: list) -> list[str]:
    return [f"class {k % 2}" for k in range(len(sequences))]


# -- texts -------------------------------------------------------------------------------------------------------------


@given(TEXT)
def test_a_text(folder: Path, text: str):
    assert read_documents(write_data("text", text, folder))[0].text == text


@given(some.lists(TEXT, min_size=1, max_size=12))
def test_documents_keep_their_order(folder: Path, texts: list[str]):
    path = write_data("text", texts, folder)
    assert [document.text for document in read_documents(path)] == texts
    assert not list(folder.glob("*.part"))


@given(some.lists(LINE, min_size=1))
def test_one_sequence_per_line(folder: Path, texts: list[str]):
    path = write_data("text", texts, folder, lines=True)
    assert read_documents(path)[0].text.splitlines() == texts


@given(some.lists(some.tuples(NAME, NAME), min_size=1))
def test_classes(folder: Path, rows: list[tuple[str, str]]):
    assert read_classes(str(write_data("classes", rows, folder))) == rows


@given(some.lists(some.tuples(TEXT, some.text(CHARACTERS)), min_size=1))
def test_pairs_keep_tabs_quotes_and_line_breaks(folder: Path, pairs: list[tuple[str, str]]):
    assert read_pairs(write_data("pairs", pairs, folder)) == pairs


def test_line_ends_are_those_of_every_text(folder: Path):
    assert read_documents(write_data("text", "a\r\nb\rc", folder))[0].text == "a\nb\nc"


@pytest.mark.parametrize("text", ["a\nb", "a\u2028b", "a\x85", "a\v"])
def test_a_sequence_with_a_line_break_is_refused(folder: Path, text: str):
    for kind, data in (("text", [text]), ("classes", [("c", f"{text}b")]), ("classes", [(f"{text}c", "b")])):
        with pytest.raises(DataError, match="holds a line break"):
            write_data(kind, data, folder, lines=True)


# -- sequences with labels ---------------------------------------------------------------------------------------------


@given(some.lists(ANY_TEXT, min_size=1))
def test_labelled_texts(folder: Path, texts: list[str]):
    found = read_labelled(write_data("labelled", (texts, labels_for(texts)), folder))
    assert (found.kind, found.sequences, found.labels) == ("text", texts, labels_for(texts))


@given(some.lists(some.lists(ANY_TEXT, min_size=1), min_size=1), some.data())
def test_tagged_tokens(folder: Path, tokens: list[list[str]], data: some.DataObject):
    tags = [data.draw(some.lists(NAME, min_size=len(one), max_size=len(one))) for one in tokens]
    found = read_labelled(write_data("labelled", (tokens, tags), folder, per_step=True), How(per_step=True))
    assert (found.kind, found.sequences, found.labels) == ("tokens", tokens, tags)


@given(some.integers(1, 3).flatmap(ragged), some.booleans())
def test_series_of_unequal_length(folder: Path, sequences: list[np.ndarray], as_tensors: bool):
    given_as = [torch.from_numpy(one) for one in sequences] if as_tensors else sequences
    found = read_labelled(write_data("labelled", (given_as, labels_for(sequences)), folder))
    assert found.kind == "numbers"
    assert all(same(*each) for each in zip(found.sequences, sequences, strict=True))


@given(
    arrays.arrays(np.float64, arrays.array_shapes(min_dims=2, max_dims=3, max_side=4), elements=NUMBER), some.booleans()
)
def test_an_array_of_sequences(folder: Path, values: np.ndarray, per_step: bool):
    labels = np.zeros(values.shape[:2], dtype=int) if per_step else labels_for(list(values))
    path = write_data("labelled", (values, labels), folder, per_step=per_step)
    found = read_labelled(path, How(per_step=per_step))
    assert found.labels == ([["0"] * values.shape[1]] * len(values) if per_step else labels)
    assert same(np.stack(found.sequences), values if values.ndim == 3 else values[..., None])


def test_bytes_stay_images(folder: Path):
    pixels = torch.randint(256, (3, 4, 4), dtype=torch.uint8)
    found = read_labelled(write_data("labelled", (pixels, torch.arange(3)), folder), How(pixels=True))
    assert (found.kind, found.labels) == ("images", ["0", "1", "2"])
    np.testing.assert_array_equal(np.stack(found.sequences), pixels.view(3, 16, 1).numpy().astype(np.float32) / 255)


def test_columns_and_rows_by_name(folder: Path):
    columns = {"tokens": [["a", "b"], ["c"]], "tags": [["X", "Y"], ["Z"]]}
    rows = [{"tokens": ["a", "b"], "tags": ["X", "Y"]}, {"tokens": ["c"], "tags": ["Z"]}]
    for data in (columns, rows):
        found = read_labelled(write_data("labelled", data, folder, per_step=True), How(per_step=True))
        assert (found.sequences, found.labels) == (columns["tokens"], columns["tags"])


def test_sequences_without_labels(folder: Path):
    for data in ((["a", "b"], None), {"text": ["a", "b"]}):
        found = read_labelled(write_data("labelled", data, folder), How(labelled=False))
        assert (found.sequences, found.labels) == (["a", "b"], None)


# -- tables ------------------------------------------------------------------------------------------------------------


@given(some.lists(some.tuples(NAME, NAME, some.floats(-1e10, 1e10), NAME), min_size=1))
def test_events_with_times_as_numbers(folder: Path, events: list[tuple[str, str, float, str]]):
    rows = [dict(zip(("case", "activity", "time", "who"), event, strict=True)) for event in events]
    log = read_log(write_data("events", rows, folder), attributes=["who"])
    for case in log.cases:
        own = sorted((event for event in events if event[0] == case.name), key=lambda event: event[2])
        assert case.activities == [event[1] for event in own]
        assert case.times is not None
        assert case.times.tolist() == [event[2] for event in own]
        assert case.attributes["who"] == [event[3] for event in own]


def test_a_number_that_looks_like_a_date_stays_a_number(folder: Path):
    log = read_log(write_data("events", [{"case": 1, "activity": "a", "time": 20120403.12}], folder))
    assert log.cases[0].times is not None
    assert log.cases[0].times.tolist() == [20120403.12]


@given(arrays.arrays(np.float64, arrays.array_shapes(min_dims=1, max_dims=2, max_side=5), elements=NUMBER))
def test_a_series(folder: Path, values: np.ndarray):
    wanted = values.reshape(len(values), -1)
    for data in (values, torch.from_numpy(values), values.tolist()):
        path = write_data("series", data, folder)
        assert same(read_timed_series(path).values, wanted)
    if np.isfinite(values).all():
        series = read_series(path)
        assert same(series.values, wanted)
        assert series.names[0] == "column 1"


@given(
    arrays.arrays(
        np.float64,
        arrays.array_shapes(min_dims=2, max_dims=2, min_side=4, max_side=5),
        elements=some.floats(-LARGEST, LARGEST),
    )
)
def test_a_table(folder: Path, values: np.ndarray):
    table = read_table(write_data("table", (values, ["yes", "no"] * 2 + ["no"] * (len(values) - 4)), folder))
    assert same(table.x, values)
    assert table.classes == ("no", "yes")
    assert table.labels[:2].tolist() == [1, 0]


@settings(max_examples=30)
@given(
    some.sampled_from([np.uint8, np.int16, np.float32, np.float64]).flatmap(
        lambda kind: arrays.arrays(
            kind,
            some.sampled_from([(3, 5, 6), (3, 1, 5, 6), (3, 4, 5, 6)]),
            elements=None if np.dtype(kind).kind in "iu" else {"allow_nan": False, "allow_infinity": False},
        ).filter(is_read)
    )
)
def test_images(folder: Path, images: np.ndarray):
    found = read_images(write_data("table", (images, [0, 10, 2]), folder))
    assert same(found.x, images if images.ndim == 4 else images[:, None])
    assert found.x.numpy().dtype == images.dtype
    assert [found.classes[k] for k in found.labels] == ["0", "10", "2"]


# -- trees and music ---------------------------------------------------------------------------------------------------

WORD = some.text(CHARACTERS, min_size=1).filter(lambda text: text.split() == [text] and not set(text) & set("()"))
NODES = some.recursive(ANY_TEXT | some.integers(), lambda node: some.lists(node, min_size=1, max_size=3), max_leaves=8)


@given(some.lists(some.tuples(WORD, WORD, WORD), min_size=1))
def test_bracketed_trees(folder: Path, words: list[tuple[str, str, str]]):
    texts = [f"({a} ({b} {c})\n({a} {c}))" for a, b, c in words]
    wanted = [parse_expressions(text)[0] for text in texts]
    assert read_trees(write_data("trees", texts, folder)) == wanted


@given(some.lists(some.fixed_dictionaries({"label": ANY_TEXT, "children": some.lists(NODES, min_size=1)}), min_size=1))
def test_nested_trees(folder: Path, trees: list):
    assert read_trees(write_data("trees", trees, folder)) == [json_tree(tree) for tree in trees]


@given(arrays.arrays(np.uint8, some.tuples(some.integers(2, 6), some.just(88)), elements=some.integers(0, 1)))
def test_rolls(folder: Path, roll: np.ndarray):
    notes = [[int(key) + 21 for key in np.flatnonzero(frame)] for frame in roll]
    found = read_rolls(write_data("rolls", {"train": [roll], "valid": [torch.from_numpy(roll), notes]}, folder))
    assert found.test == []
    assert all(same(piece, roll) for piece in found.train + found.valid)


# -- frames ------------------------------------------------------------------------------------------------------------


def test_a_frame_of_texts_and_labels(folder: Path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"review": ['so, "so"\n', " ; fine"], "stars": [2, 4]})
    found = read_labelled(write_data("labelled", frame, folder), How(text="review", label="stars"))
    assert (found.sequences, found.labels) == (['so, "so"\n', " ; fine"], ["2", "4"])
    found = read_labelled(write_data("labelled", (frame["review"], frame["stars"]), folder))
    assert (found.sequences, found.labels) == (['so, "so"\n', " ; fine"], ["2", "4"])


def test_a_frame_of_texts_that_are_too_long_for_csv(folder: Path):
    pandas = pytest.importorskip("pandas")
    texts = ["a" * 200_000, "b"]
    path = write_data("labelled", pandas.DataFrame({"text": texts, "label": [1, 2]}), folder)
    assert read_labelled(path).sequences == texts


def test_a_frame_of_lists(folder: Path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"values": [[0.1, None], [0.3]], "label": ["a", "b"]})
    found = read_labelled(write_data("labelled", frame, folder))
    assert same(found.sequences[0], np.array([[0.1], [np.nan]]))


def test_a_frame_of_numbers_and_a_label(folder: Path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [0.1, np.nan], "b": [1 / 3, 1e-300], "label": ["x", "y"]})
    found = read_labelled(write_data("labelled", frame, folder))
    assert same(np.stack(found.sequences)[..., 0], frame[["a", "b"]].to_numpy())
    found = read_labelled(write_data("labelled", (frame[["a", "b"]], frame["label"]), folder))
    assert same(np.stack(found.sequences)[..., 0], frame[["a", "b"]].to_numpy())


def test_a_frame_of_two_columns(folder: Path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["hello", "bonjour"], "label": ["en", "fr"]})
    assert read_classes(str(write_data("classes", frame, folder))) == [("en", "hello"), ("fr", "bonjour")]
    frame = pandas.DataFrame({"target": ["a\tb", "c"], "source": ["d", "e"]})
    assert read_pairs(write_data("pairs", frame, folder)) == [("d", "a\tb"), ("e", "c")]
    with pytest.raises(DataError, match="two columns are needed; found target, source, third"):
        write_data("pairs", frame.assign(third=1), folder)


def test_a_frame_of_events(folder: Path):
    pandas = pytest.importorskip("pandas")
    times = pandas.to_datetime(["2024-03-01 10:00:00.5", "2024-03-02 11:00:00.0"]).tz_localize("Europe/Rome")
    frame = pandas.DataFrame({"case": [7, 7], "activity": ["a", "b"], "time": times, "who": ["x", None]})
    log = read_log(write_data("events", frame, folder), attributes=["who"])
    assert log.cases[0].name == "7"
    assert log.cases[0].times is not None
    assert log.cases[0].times.tolist() == [when.timestamp() for when in times]
    assert log.cases[0].attributes["who"] == ["x", ""]


@pytest.mark.parametrize("index", ["dates", "periods", "none"])
def test_a_series_with_dates(folder: Path, index: str):
    pandas = pytest.importorskip("pandas")
    dates = pandas.date_range("2024-01-01", periods=4, freq="D", name="when")
    by = {"dates": dates, "periods": dates.to_period(), "none": None}[index]
    column = pandas.Series([1.5, None, 3, 4], name="load", index=by)
    for data in (column, column.astype("Float64"), column.to_frame()):
        series = read_timed_series(write_data("series", data, folder))
        assert series.names == ("load",)
        assert same(series.values[:, 0], column.to_numpy())
        after = None if series.clock is None else series.clock.after(1)
        assert after == (None if index == "none" else ["2024-01-05"])


def test_numbers_as_names_of_columns(folder: Path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.arange(12.0).reshape(4, 3))
    assert same(read_series(write_data("series", frame, folder)).values, frame.to_numpy())
    table = read_table(write_data("table", (frame, [True, False] * 2), folder))
    assert same(table.x, frame.to_numpy())
    assert table.classes == ("0", "1")


def test_a_frame_with_a_column_of_labels(folder: Path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"species": ["a", "b", "a", "b"], "length": [0.1, 0.2, 0.3, 0.4]})
    table = read_table(write_data("table", frame, folder))
    assert table.columns == ("length",)
    assert same(table.x[:, 0], frame["length"].to_numpy())


# -- what cannot be used -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TAKES)
def test_other_objects_are_refused_in_one_line(folder: Path, kind: str):
    for data in (None, 3.5, {"other": 1}, object(), [object()]):
        if kind == "series" and data == 3.5:
            continue
        with pytest.raises(RecurraError) as refused:
            write_data(kind, data, folder)
        assert str(refused.value).startswith("data")
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("text", ["a", " "], "text 2 of 2 is empty"),
        ("text", "a\0b", "zero byte"),
        ("text", "a\ud800", "half a character"),
        ("labelled", (["a", "b"], ["x"]), "found 2 text, 1 label"),
        ("labelled", (np.zeros((2, 3)), ["x"]), "found 2 sequences, 1 labels"),
        ("labelled", (["a", "b"], ["x", None]), "label 2 of 2 is missing"),
        ("labelled", (["a", "b"], ["x", float("nan")]), "label 2 of 2 is missing"),
        ("labelled", (np.zeros((2, 3, 4, 5)), ["x", "y"]), r"\[N, T\] or \[N, T, D\]; got \[2, 3, 4, 5\]"),
        ("classes", [("a\tb", "c")], "holds a tab"),
        ("events", [{"case;id": 1, "activity": 2}], "column 'case;id' needs a name of its own"),
        ("series", np.zeros((2, 2, 2)), r"got \[2, 2, 2\]"),
        ("series", ["a", "b"], "numbers were expected"),
        ("table", (np.zeros(3), [1, 2, 3]), r"got \[3\]"),
        ("rolls", {"train": [np.full((3, 88), 2)]}, "0 or 1"),
        ("rolls", {"train": [np.zeros((3, 5))]}, r"got \[3, 5\]"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, kind: str, data: object, said: str):
    with pytest.raises(DataError, match=said):
        write_data(kind, data, folder)


def test_a_tree_that_is_too_deep_for_json(folder: Path):
    tree: list = ["a"]
    for _ in range(100_000):
        tree = [tree]
    with pytest.raises(DataError, match="nested too deeply"):
        write_data("trees", [tree], folder)
    while isinstance(tree[0], list):  # taken apart from outside: to free it at once would recurse
        tree = tree[0]


def test_an_unknown_kind_is_refused(folder: Path):
    with pytest.raises(OptionError, match=r"'tree' does not exist\. Did you mean 'trees'"):
        write_data("tree", [], folder)


def test_a_folder_that_is_not_there(tmp_path: Path):
    for data in ("text", ["text", "text"]):
        with pytest.raises(DataError, match="cannot be written"):
            write_data("text", data, tmp_path / "none")


def test_what_was_there_is_replaced_whole(tmp_path: Path):
    write_data("text", ["a", "b", "c"], tmp_path)
    write_data("text", ["d"], tmp_path)
    assert [file.read_text() for file in sorted((tmp_path / "data").iterdir())] == ["d"]
    write_data("trees", [["a", 1]], tmp_path)
    assert json.loads((tmp_path / "data.jsonl").read_text()) == ["a", 1]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["data", "data.jsonl"]


def test_moments_of_python(folder: Path):
    start = datetime(2024, 1, 1, tzinfo=UTC)
    rows = [{"case": "a", "activity": "x", "time": start + timedelta(seconds=k / 4)} for k in range(3)]
    times = read_log(write_data("events", rows, folder)).cases[0].times
    assert times is not None
    assert times.tolist() == [start.timestamp() + k / 4 for k in range(3)]
