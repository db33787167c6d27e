"""Files of labelled sequences: guessed columns, kinds of sequences, and one clear line about what is wrong."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from recurra.data.labelled import How, read_labelled
from recurra.errors import DataError

TAGS = How(per_step=True)


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


class TestTables:
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("a.csv", 'id,text,label\n1,"good, very",yes\n2,bad,no\n'),
            ("a.csv", 'Label;Review\nyes;"good, very"\nno;bad\n'),
            ("a.tsv", "sentence\twhich\ngood, very\tyes\nbad\tno\n"),
            ("a.jsonl", '{"text": "good, very", "label": "yes"}\n\n{"label": "no", "text": "bad"}\n'),
        ],
    )
    def test_columns_are_guessed(self, tmp_path: Path, name: str, text: str) -> None:
        found = read_labelled(write(tmp_path, name, text))
        assert (found.kind, found.sequences, found.labels) == ("text", ["good, very", "bad"], ["yes", "no"])

    def test_what_was_read_is_said(self, tmp_path: Path) -> None:
        found = read_labelled(write(tmp_path, "a.csv", "a,b,c\nx,y,z\n"), How(text="c", label="a"))
        assert (found.sequences, found.labels) == (["z"], ["x"])
        assert found.columns == {"text": "c", "label": "a"}

    def test_gzip(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"text,label\ngood,yes\n"))
        assert read_labelled(tmp_path / "a.csv.gz").sequences == ["good"]

    def test_columns_of_numbers_are_the_steps_of_one_channel(self, tmp_path: Path) -> None:
        found = read_labelled(write(tmp_path, "a.csv", "class,t1,t2,t3\nup,1,2,3\ndown,3,?,\n"))
        assert (found.kind, found.labels) == ("numbers", ["up", "down"])
        np.testing.assert_array_equal(found.sequences[1], [[3], [np.nan], [np.nan]])
        assert found.columns == {"steps": "t1 … t3", "label": "class"}

    def test_lists_of_tokens_and_of_numbers(self, tmp_path: Path) -> None:
        rows = [{"values": [1, None, 3], "label": True}, {"values": [4], "label": False}]
        found = read_labelled(write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows))))
        assert (found.kind, found.labels) == ("numbers", ["True", "False"])
        np.testing.assert_array_equal(found.sequences[0], [[1], [np.nan], [3]])
        found = read_labelled(write(tmp_path, "b.jsonl", '{"values": [[1, 2], [3, 4], [5, 6]], "label": 1}\n'))
        np.testing.assert_array_equal(found.sequences[0], [[1, 2], [3, 4], [5, 6]])
        found = read_labelled(write(tmp_path, "c.jsonl", '{"tokens": ["a b", "c"], "label": 1}\n'))
        assert (found.kind, found.sequences) == ("tokens", [["a b", "c"]])

    def test_labels_may_be_missing_where_they_are_not_needed(self, tmp_path: Path) -> None:
        how = How(text="review", label="stars", labelled=False)
        assert read_labelled(write(tmp_path, "a.csv", "n,review\n1,good\n"), how).labels is None
        assert read_labelled(write(tmp_path, "a.csv", "stars,review\n1,good\n"), how).labels == ["1"]
        assert read_labelled(write(tmp_path, "a.txt", "good\n\nbad\n"), how).sequences == ["good", "", "bad"]
        assert read_labelled(write(tmp_path, "a.txt", "a\u2028b\x0cc\n "), how).sequences == ["a\u2028b\x0cc", " "]


class TestTags:
    def test_a_token_per_line(self, tmp_path: Path) -> None:
        text = "-DOCSTART- -X- O\n\nthe DT O\ncat NN B\n\n\nsat VB O\n"
        found = read_labelled(write(tmp_path, "a.conll", text), TAGS)
        assert (found.kind, found.sequences) == ("tokens", [["the", "cat"], ["sat"]])
        assert found.labels == [["O", "B"], ["O"]]

    def test_without_tags(self, tmp_path: Path) -> None:
        found = read_labelled(write(tmp_path, "a.txt", "the\ncat\n\nsat\n"), How(per_step=True, labelled=False))
        assert (found.sequences, found.labels) == ([["the", "cat"], ["sat"]], None)

    def test_lists(self, tmp_path: Path) -> None:
        rows = '{"tokens": ["a", "b"], "tags": ["X", "Y"]}\n{"tokens": ["c"], "tags": ["X"]}\n'
        assert read_labelled(write(tmp_path, "a.jsonl", rows), TAGS).labels == [["X", "Y"], ["X"]]
        found = read_labelled(write(tmp_path, "b.jsonl", '{"values": [1, 2], "tags": [0, 1]}\n'), TAGS)
        assert (found.kind, found.labels) == ("numbers", [["0", "1"]])


@pytest.mark.parametrize(
    ("name", "text", "how", "words"),
    [
        ("a.csv", "", How(), "empty"),
        ("a.csv", " \n", How(), "empty"),
        ("a.csv", "text,label\n", How(), "no row"),
        ("a.csv", "a,b,c\n1,x,y\n", How(), "which column holds the label. Found: a, b, c"),
        ("a.csv", "a,b,label\n1,x,y\n", How(), "which column holds the text. Found: a, b, label"),
        ("a.csv", "a,b,label\n1,2,y\n3,x,y\n5,6,y\n", How(), "line 3, b: 'x' is not a finite number, as most"),
        ("a.csv", "a,b,label\n1,2,y\n3,inf,y\n", How(), "line 3, b: 'inf' is not a finite number"),
        ("a.csv", "a,b,label\n1,v,y\n3,x,y\n5,6,y\n", How(), "which column holds the text"),
        ("a.csv", "text,label\nx,y\n", How(label="stars"), r"no column 'stars' .data.label.. Found: text, label"),
        ("a.csv", "text,label\nx,y\n", How(text="words"), r"no column 'words' .data.text.. Found: text, label"),
        ("a.csv", "text,label\nx,y,z\n", How(), "line 2: 3 values were found for 2 columns"),
        ("a.csv", 'text,label\n"x,y\n', How(), "Check the quotes"),
        ("a.csv", "text,label\nx,\n", How(), "line 2, label is empty"),
        ("a.csv", "text,label\nx,y\n", TAGS, "tags are read from"),
        ("a.jsonl", '{"text": "x", "label": 1}\n{"text": "x"', How(), "line 2 is not JSON"),
        ("a.jsonl", "[1]\n", How(), "line 1 is not an object"),
        ("a.jsonl", '{"text": "x", "label": 1}\n{"text": "x"}\n', How(), "line 2 has no 'label'. Found: text"),
        ("a.jsonl", '{"text": 7, "label": 1}\n', How(), "neither a text"),
        ("a.jsonl", '{"values": [1, "x"], "label": 1}\n', How(), "neither a text"),
        ("a.jsonl", '{"values": [1, Infinity], "label": 1}\n', How(), "neither a text"),
        ("a.jsonl", '{"values": [[1, 2], [3]], "label": 1}\n', How(), "found 1 to 2"),
        ("a.jsonl", '{"values": [[1, 2]], "label": 1}\n{"values": [[1]], "label": 1}\n', How(), "have 1 channels"),
        ("a.jsonl", '{"values": [1], "label": 1}\n{"values": "a", "label": 1}\n', How(), "holds text, but the first"),
        ("a.jsonl", '{"text": "x", "label": ["a"]}\n', How(), "one label"),
        ("a.jsonl", '{"tokens": ["x", "y"], "tags": ["a"]}\n', TAGS, "each of the 2 steps is needed; found 1"),
        ("a.jsonl", '{"text": "x", "tags": ["a"]}\n', TAGS, "write a list"),
        ("a.conll", "the DT\ncat\n", TAGS, "line 2: 'cat' has no tag"),
        ("a.txt", "words\n", How(), "the ending .txt is not known"),
        ("a.ts", "@classLabel true a\n@data\n", How(), "holds no sequence"),
        ("a.ts", "@classLabel false\n@data\n1,2\n", How(), "no labels"),
    ],
)
def test_refused(tmp_path: Path, name: str, text: str, how: How, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_labelled(write(tmp_path, name, text), how)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file"):
        read_labelled(tmp_path / "a.csv")
    with pytest.raises(DataError, match="a folder"):
        read_labelled(tmp_path)
