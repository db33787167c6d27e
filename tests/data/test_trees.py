"""Trees in words: brackets, JSON and Python source, errors by line and column, and their numbers."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from recurra.data.text import Document
from recurra.data.trees import (
    Tree,
    TreeVocabulary,
    build_vocabulary,
    json_tree,
    parse_expressions,
    parse_json,
    python_trees,
    read_trees,
    write_expression,
)
from recurra.errors import DataError

DEEP = 5000


class TestBrackets:
    def test_labels_and_words(self) -> None:
        (tree,) = parse_expressions("(3 (2 word) (1 (0 a) (2 b)))")
        assert tree.tokens == [None, "word", None, "a", "b"]
        assert tree.parents == [-1, 0, 0, 2, 2]
        assert tree.labels == ["3", "2", "1", "0", "2"]

    def test_words_without_brackets_have_no_label(self) -> None:
        (tree,) = parse_expressions("(3 not (2 so good))")
        assert tree.tokens == [None, "not", None, "so", "good"]
        assert tree.labels == ["3", None, "2", None, None]

    def test_only_the_root(self) -> None:
        (tree,) = parse_expressions("(3 (2 word) (1 b))", labels="root")
        assert tree.tokens == [None, "word", "b"]
        assert tree.labels == ["3", None, None]

    def test_heads_that_are_read(self) -> None:
        (tree,) = parse_expressions("(yes (S (NP the cat) (VP sat)))", labels="outer")
        assert tree.tokens == [None, "S", "NP", "the", "cat", "VP", "sat"]
        assert tree.parents == [-1, 0, 1, 2, 2, 1, 5]
        assert tree.labels == ["yes", *[None] * 6]

    def test_a_single_word(self) -> None:
        assert parse_expressions("(2 a)") == [Tree(["a"], [-1], ["2"])]

    def test_over_lines_and_several_on_one(self) -> None:
        trees = parse_expressions("(1\n  (0 a)\n  (1 b)) (2 c)\n\n(3 d)\n")
        assert [tree.labels[0] for tree in trees] == ["1", "2", "3"]
        assert trees[0].parents == [-1, 0, 0]

    @pytest.mark.parametrize(
        ("text", "line", "column", "said"),
        [
            ("(1 a)\n(2 (1 b) (1 c)\n", 2, 1, "never closed"),
            ("(1 a)\n  (2 b))\n", 2, 8, "never opened"),
            ("(1 a)\n\n (1 ()) ", 3, 5, "no word and no other bracket"),
            ("(1 (2))", 1, 4, "no word and no other bracket"),
            ("(1 a) b", 1, 7, "'b' stands outside"),
            ("((1 a) b)", 1, 2, "where a label was expected"),
        ],
    )
    def test_errors_say_where(self, text: str, line: int, column: int, said: str) -> None:
        with pytest.raises(DataError, match=rf"^f\.txt, line {line}, column {column}: .*{said}"):
            parse_expressions(text, "f.txt")

    def test_deeper_than_pythons_recursion(self) -> None:
        assert sys.getrecursionlimit() < DEEP
        (tree,) = parse_expressions("(1 " * DEEP + "a" + ")" * DEEP)
        assert len(tree.parents) == DEEP
        assert tree.tokens[-1] == "a"
        assert write_expression(tree).count("(") == DEEP

    @given(
        some.recursive(some.sampled_from("abc"), lambda inner: some.lists(inner, min_size=1, max_size=3), max_leaves=12)
    )
    def test_written_and_read_again(self, nested: object) -> None:
        def bracket(value: object) -> str:
            inside = value if isinstance(value, str) else " ".join(bracket(each) for each in value)  # type: ignore[attr-defined]
            return f"(1 {inside})"

        (tree,) = parse_expressions(bracket(nested))
        assert parse_expressions(write_expression(tree)) == [tree]


class TestJson:
    def test_objects_lists_and_values(self) -> None:
        tree = json_tree(json.loads('{"label": "yes", "children": ["not", {"symbol": "VP", "children": [7, [true]]}]}'))
        assert tree.tokens == [None, "not", "VP", "7", None, "true"]
        assert tree.parents == [-1, 0, 0, 2, 2, 4]
        assert tree.labels == ["yes", *[None] * 5]

    def test_labels_of_every_node_or_the_root(self) -> None:
        value = {"label": 1, "children": [{"label": 2, "symbol": "a"}]}
        assert json_tree(value).labels == ["1", "2"]
        assert json_tree(value, labels="root").labels == ["1", None]

    values = some.recursive(
        some.none()
        | some.booleans()
        | some.integers()
        | some.floats(allow_nan=False, allow_infinity=False)
        | some.text(),
        lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=3), inner, max_size=3),
        max_leaves=10,
    )

    @given(values, some.sampled_from([None, 2]))
    def test_the_same_as_json_loads(self, value: object, indent: int | None) -> None:
        text = json.dumps(value, indent=indent)
        assert parse_json(text) == json.loads(text)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[1, 2",
            "[1,]",
            "[1 2]",
            '{"a" 1}',
            '{"a": }',
            "{1: 2}",
            '["a]',
            "[1] 2",
            "nul",
            "01",
            '{"a": 1,}',
            '"\\q"',
        ],
    )
    def test_refuses_what_json_refuses(self, text: str) -> None:
        with pytest.raises(json.JSONDecodeError):
            json.loads(text)
        with pytest.raises(DataError, match=r"line 1, column \d+: "):
            parse_json(text)

    def test_errors_say_where(self) -> None:
        with pytest.raises(DataError, match=r"^t\.json, line 2, column 9: a comma or \] was expected in this JSON"):
            parse_json('{"a":\n  [1, 2 3]}', "t.json")

    @pytest.mark.parametrize(
        ("value", "said"),
        [
            ({"name": "a"}, "'name'"),
            ({"label": "a"}, "neither a symbol nor children"),
            (["a", None], "neither a symbol nor children"),
            ({"symbol": ["a"]}, "symbol and label a text"),
            ({"children": "ab"}, "children must be a list"),
        ],
    )
    def test_nodes_that_are_none(self, value: object, said: str) -> None:
        with pytest.raises(DataError, match=f"^here: .*{said}"):
            json_tree(value, "here")

    def test_deeper_than_pythons_recursion(self) -> None:
        tree = json_tree(parse_json("[" * DEEP + '"a"' + "]" * DEEP))
        assert len(tree.parents) == DEEP + 1
        assert tree.tokens[-1] == "a"


class TestPython:
    SOURCE = "class A:\n    def f(self, n):\n        return n + 1\n\nasync def g():\n    pass\n"

    def test_one_tree_for_each_function(self) -> None:
        trees = python_trees([Document("good/a.py", self.SOURCE), Document("b.py", "def h():\n    return 'x'\n")])
        assert [tree.labels[0] for tree in trees] == ["good", "good", "b"]
        first = trees[0]
        words = "FunctionDef f arguments arg self arg n Return BinOp Name n Add Constant int"
        assert first.tokens == words.split()
        assert first.parents == [-1, 0, 0, 2, 3, 2, 5, 0, 7, 8, 9, 8, 8, 12]
        assert set(first.labels[1:]) == {None}

    def test_errors_say_where(self) -> None:
        with pytest.raises(DataError, match=r"^a\.py, line 2, column 5: this is not Python"):
            python_trees([Document("a.py", "def f():\n    )\n")])


class TestFiles:
    def test_by_name(self, tmp_path: Path) -> None:
        (tmp_path / "t.txt").write_text("(1 a)\n(0 b)\n")
        (tmp_path / "t.jsonl").write_text('{"label": 1, "symbol": "a"}\n\n{"label": 0, "symbol": "b"}\n')
        (tmp_path / "t.json").write_text('[{"label": 1, "symbol": "a"}, {"label": 0, "symbol": "b"}]')
        expected = [Tree(["a"], [-1], ["1"]), Tree(["b"], [-1], ["0"])]
        for name in ("t.txt", "t.jsonl", "t.json"):
            assert read_trees(tmp_path / name) == expected

    def test_a_folder_of_source(self, tmp_path: Path) -> None:
        (tmp_path / "one.py").write_text("def f():\n    pass\n")
        (tmp_path / "README").write_text("no tree")
        assert [tree.labels[0] for tree in read_trees(tmp_path)] == ["one"]

    def test_lines_of_jsonl_are_counted(self, tmp_path: Path) -> None:
        (tmp_path / "t.jsonl").write_text('{"label": 1, "symbol": "a"}\n{"label": 1,\n')
        with pytest.raises(DataError, match=r"^t\.jsonl, line 2, column 13: a key was expected"):
            read_trees(tmp_path / "t.jsonl")

    def test_none(self, tmp_path: Path) -> None:
        (tmp_path / "a.py").write_text("x = 1\n")
        with pytest.raises(DataError, match="there is none in it"):
            read_trees(tmp_path)


class TestVocabulary:
    TREES = parse_expressions("(b x x y) (a (b x) (b z) (a x))")

    def test_numbers(self) -> None:
        names = build_vocabulary(self.TREES[:1], self.TREES[1:])
        assert (names.tokens, names.classes, names.widest, names.size) == (["x", "y"], ["a", "b"], 3, 4)
        forest = names.plant(self.TREES)
        assert forest.tokens.tolist() == [1, 2, 2, 3, 1, 2, 0, 2]
        assert forest.labels.tolist() == [1, -1, -1, -1, 0, 1, 1, 0]
        assert TreeVocabulary.from_json(json.loads(json.dumps(names.to_json()))) == names

    def test_rare_tokens_are_unknown(self) -> None:
        assert build_vocabulary(self.TREES, min_count=2).tokens == ["x"]

    def test_a_label_that_was_not_learned(self) -> None:
        with pytest.raises(DataError, match="'c' was not among those that were learned: a, b"):
            build_vocabulary(self.TREES).plant(parse_expressions("(c x)"))

    def test_something_else_was_saved(self) -> None:
        with pytest.raises(DataError, match="not a saved vocabulary of trees"):
            TreeVocabulary.from_json({"kind": "char"})
