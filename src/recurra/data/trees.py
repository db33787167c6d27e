"""Trees in words: read from bracketed expressions, nested JSON or Python source, and encoded for a network.

Nothing here recurses: trees may be deeper than Python's stack.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NoReturn

from recurra.data.forest import Forest, binary_tree, make_forest
from recurra.data.guard import reads
from recurra.data.limits import check_limit, limits
from recurra.data.text import Document, read_documents
from recurra.errors import DataError, choose_from, listed, quoted

LABELS = ("every", "root", "outer")
"""What the first word of a bracket is: a label to learn (`every`); a label, of which only the outermost is learned (`root`);
or a token that the node reads, but for the outermost, which is a label to learn (`outer`)."""

UNKNOWN, NODE = "<unk>", "<node>"
BLANK = 1
"""The number of `<node>`, in every vocabulary."""


@dataclass(frozen=True)
class Tree:
    """One tree, its nodes in an order in which a parent comes before its children.

    - `tokens`: what a node reads; `None`: nothing but its children. `labels`: its class; `None`: it has none.
    - `parents`: the number of each node's parent; −1 at the root, which is node 0.
    """

    tokens: list[str | None]
    parents: list[int]
    labels: list[str | None]


SHAPES = ("given", "balanced", "chain")


def reshaped(tree: Tree, shape: str) -> Tree:
    """A binary tree over the tokens of another, in their order, with the label of its root.

    - `shape`: `balanced`, of height ⌈log₂ n⌉ over n tokens; `chain`, from the first token to the last, of height n − 1, as a
      recurrent network reads them; `given`: as it is.
    """
    if choose_from("shape", shape, SHAPES) == "given":
        return tree
    leaves = [token for token in tree.tokens if token is not None]
    parents, places = binary_tree(len(leaves), chain=shape == "chain")
    tokens = [None if place is None else leaves[place] for place in places]
    return Tree(tokens, parents, [tree.labels[0], *[None] * (len(tokens) - 1)])


def is_binary_parse(tree: Tree) -> bool:
    """Whether only leaves read something, and no node has more than two children."""
    children = Counter(tree.parents[1:])
    reads = {n for n, token in enumerate(tree.tokens) if token is not None}
    return max(children.values(), default=0) <= 2 and reads.isdisjoint(children)


@dataclass(frozen=True)
class TreeVocabulary:
    """The tokens that nodes read, numbered after `<unk>` (0) and `<node>` (1: nothing to read), and the classes.

    `widest`: the most children that a node had.
    """

    tokens: list[str]
    classes: list[str]
    widest: int

    @cached_property
    def _ids(self) -> dict[str | None, int]:
        return {None: BLANK} | {token: k for k, token in enumerate(self.tokens, start=2)}

    @cached_property
    def _classes(self) -> dict[str | None, int]:
        return {None: -1} | {label: k for k, label in enumerate(self.classes)}

    @property
    def size(self) -> int:
        return len(self.tokens) + 2

    def plant(self, trees: Sequence[Tree]) -> Forest:
        """Trees as numbers."""
        strange = next((label for tree in trees for label in tree.labels if label not in self._classes), None)
        if strange is not None:
            raise DataError(
                f"the label {quoted(strange)} was not among those that were learned: {listed(self.classes)}. "
                "Give trees with those labels."
            )
        return make_forest(
            [tree.parents for tree in trees],
            [[self._ids.get(token, 0) for token in tree.tokens] for tree in trees],
            [[self._classes[label] for label in tree.labels] for tree in trees],
        )

    def to_json(self) -> dict[str, Any]:
        return {"kind": "tree", "symbols": self.tokens, "classes": self.classes, "widest": self.widest}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> TreeVocabulary:
        try:
            return cls(list(saved["symbols"]), list(saved["classes"]), int(saved["widest"]))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"This is not a saved vocabulary of trees ({error} is missing or wrong).") from error


def build_vocabulary(train: Sequence[Tree], others: Sequence[Tree] = (), min_count: int = 1) -> TreeVocabulary:
    """The tokens of training trees, the most frequent first; the classes of those and of others.

    - `min_count`: tokens that are seen less often become `<unk>`.

    ```python
    vocabulary = rc.data.build_vocabulary(rc.data.parse_expressions("(1 (0 a) (1 b))"))
    ```
    """
    counts = Counter(token for tree in train for token in tree.tokens if token is not None)
    kept = sorted((s for s in counts if counts[s] >= min_count), key=lambda s: (-counts[s], s))
    everything = [*train, *others]
    classes = {label for tree in everything for label in tree.labels if label is not None}
    check_limit("vocabulary", max(len(kept), len(classes)), "the trees", "Set data.min_count.")
    widest = max((max(Counter(tree.parents[1:]).values(), default=0) for tree in everything), default=0)
    return TreeVocabulary(kept, sorted(classes), max(1, widest))


@reads
def read_trees(path: str | Path, labels: str = "every") -> list[Tree]:
    """The trees of a file, a folder or a pattern, by what the files are called.

    | files | trees |
    |---|---|
    | `.json` | one tree, or a list of trees: see `json_trees` |
    | `.jsonl` | a tree on each line |
    | `.py` | one for each function, labelled by its file or folder: see `python_trees`; others beside them are left out |
    | any other | bracketed expressions: see `parse_expressions` |

    ```python
    from pathlib import Path

    Path("trees.txt").write_text("(1 (0 a) (1 b))")
    rc.data.read_trees("trees.txt")
    ```
    """
    documents = read_documents(path)
    source = [each for each in documents if each.name.endswith(".py")]
    trees = python_trees(source) if source else [tree for each in documents for tree in _read_document(each, labels)]
    if not trees:
        raise DataError(f"Trees were asked for from {path}, but there is none in it.")
    return trees


def _read_document(document: Document, labels: str) -> Iterator[Tree]:
    name = document.name.removesuffix(".gz")
    if name.endswith(".jsonl"):
        for number, line in enumerate(document.text.splitlines(), start=1):
            if line.strip():
                yield json_tree(parse_json(line, document.name, line=number), f"{document.name}, line {number}", labels)
    elif name.endswith(".json"):
        found = parse_json(document.text, document.name)
        for number, value in enumerate(found if isinstance(found, list) else [found], start=1):
            yield json_tree(value, f"{document.name}, tree {number}", labels)
    else:
        yield from parse_expressions(document.text, document.name, labels)


# -- bracketed expressions ---------------------------------------------------------------------------------------------


def parse_expressions(text: str, name: str = "the text", labels: str = "every") -> list[Tree]:
    """Bracketed trees, such as `(3 (2 word) (2 (2 a) (2 b)))`, one after the other, on one line or on several.

    A bracket holds a head and then words or brackets. A head is a label, and a bracket with a single word is a leaf that reads
    it; or a token that the node reads (`labels="outer"`, as for the categories of `(yes (S (NP the cat) (VP sat)))`), and
    then each word is a leaf of its own.

    ```python
    rc.data.parse_expressions("(1 (0 a) (1 b))")
    ```
    """
    choose_from("labels", labels, LABELS)
    fail, deepest = partial(_fail, text, name), limits().nesting
    trees: list[Tree] = []
    nodes: list[_Node] = []  # of the tree that is being read
    opened: list[int] = []  # which of them are brackets that are open
    for token in re.finditer(r"[()]|[^\s()]+", text):
        here, word = token.start(), token.group()
        inner = nodes[opened[-1]] if opened else None
        if word == "(" and inner is not None and inner.text is None:
            fail(here, "a bracket opens where a label was expected. Write (LABEL word) or (LABEL (…) (…)).")
        elif word != "(" and inner is None:
            found = (
                "a bracket is closed that was never opened"
                if word == ")"
                else f"{quoted(word)} stands outside of brackets"
            )
            fail(here, f"{found}. A tree is (LABEL word) or (LABEL (…) (…)).")
        elif word == ")" and inner is not None:
            if not inner.children:
                fail(inner.place, "a bracket holds no word and no other bracket. Write (LABEL word).")
            opened.pop()
            if not opened:
                trees.append(_from_brackets(nodes, labels))
                nodes = []
        elif word != "(" and inner is not None and inner.text is None:
            inner.text = word
        else:
            nodes.append(_Node(None if word == "(" else word, opened[-1] if opened else -1, here, word != "("))
            if inner is not None:
                inner.children += 1
            opened += [len(nodes) - 1] if word == "(" else []
            if len(opened) > deepest:
                check_limit("nesting", len(opened), name)
    if opened:
        fail(nodes[0].place, "the bracket that opens here is never closed. Add the missing ).")
    return trees


@dataclass(slots=True)
class _Node:
    """A bracket with its head, or a word: where it stands in the text, and how many brackets and words it holds."""

    text: str | None
    parent: int
    place: int
    is_word: bool
    children: int = 0


def _from_brackets(nodes: list[_Node], labels: str) -> Tree:
    if labels == "outer":
        texts = [node.text for node in nodes]
        return Tree([None, *texts[1:]], [node.parent for node in nodes], [texts[0], *[None] * (len(nodes) - 1)])
    tree = Tree([], [], [])
    places: list[int] = []  # of each node among those of the tree
    for n, node in enumerate(nodes):
        places.append(len(tree.tokens))
        if node.is_word and nodes[node.parent].children == 1:
            tree.tokens[places[node.parent]] = node.text  # (2 word) is one leaf
            continue
        tree.tokens.append(node.text if node.is_word else None)
        tree.labels.append(None if node.is_word or (labels == "root" and n) else node.text)
        tree.parents.append(places[node.parent] if n else -1)
    return tree


def write_expression(tree: Tree) -> str:
    """A tree with labels, or without any, in brackets: `(3 (2 word) …)`, or `(MAX 2 9 (MIN 4 7))`.

    ```python
    rc.data.write_expression(rc.data.parse_expressions("(1 (0 a) (1 b))")[0])       # "(1 (0 a) (1 b))"
    ```
    """
    children: list[list[int]] = [[] for _ in tree.parents]
    for n, parent in enumerate(tree.parents[1:], start=1):
        children[parent].append(n)
    parts: list[str] = []
    waiting: list[int | str] = [0]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            parts.append(node)
            continue
        words = [word for word in (tree.labels[node], tree.tokens[node]) if word is not None]
        if len(words) == 1 and not children[node]:
            parts.append(f" {words[0]}")
            continue
        parts.append(f" ({' '.join(words)}")
        waiting += [")", *reversed(children[node])]
    return "".join(parts).strip()


def _fail(text: str, name: str, place: int, message: str, line: int = 1) -> NoReturn:
    number = text.count("\n", 0, place) + line
    raise DataError(f"{name}, line {number}, column {place - text.rfind(chr(10), 0, place)}: {message}")


# -- nested JSON -------------------------------------------------------------------------------------------------------

_JSON = re.compile(
    r'\s*(?:(?P<mark>[][{},:])|(?P<value>"(?:[^"\\\x00-\x1f]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)|(?P<bad>\S))'
)


def parse_json(text: str, name: str = "the text", line: int = 1) -> Any:
    """What `json.loads` gives, also at depths that it does not read; `line`: the number of the text's first line, for errors."""
    fail = partial(_fail, text, name, line=line)

    def scalar(place: int, word: str) -> Any:
        try:
            value = json.loads(word)
            if isinstance(value, str):
                value.encode()
            return value
        except ValueError as error:
            fail(place, f"{quoted(word)} cannot be read as JSON ({error}).")

    deepest = limits().nesting + 1
    top: list[Any] = []
    inside: list[Any] = [top]  # the lists and objects that are open
    keys: list[str] = []
    expected = "a value"
    for token in _JSON.finditer(text):
        mark, word = token["mark"], token["value"]
        here = token.start(token.lastgroup or 0)
        if expected == "the end" or token["bad"]:
            fail(here, f"{expected} was expected in this JSON, but there is {quoted(token.group().strip())}.")
        holder = inside[-1]
        if word is not None and expected.startswith("a key") and word[0] == '"':
            keys.append(scalar(here, word))
            expected = "a colon"
            continue
        if mark == ":" and expected == "a colon":
            expected = "a value"
            continue
        if mark == "," and expected.startswith("a comma"):
            expected = "a key" if isinstance(holder, dict) else "a value"
            continue
        if mark in ("]", "}") and expected.endswith(f"or {mark}"):
            inside.pop()
        elif expected.startswith("a value") and (word is not None or mark in ("[", "{")):
            value: Any = scalar(here, word) if word is not None else [] if mark == "[" else {}
            if isinstance(holder, dict):
                holder[keys.pop()] = value
            else:
                holder.append(value)
            if word is None:
                inside.append(value)
                if len(inside) > deepest:
                    check_limit("nesting", len(inside) - 1, name)
                expected = "a value or ]" if mark == "[" else "a key or }"
                continue
        else:
            fail(here, f"{expected} was expected in this JSON, but there is {quoted(mark or word)}.")
        holder = inside[-1]
        expected = "the end" if holder is top else "a comma or }" if isinstance(holder, dict) else "a comma or ]"
    if expected != "the end":
        fail(len(text.rstrip()), f"{expected} was expected in this JSON, but it ends.")
    return top[0]


def json_tree(value: Any, where: str = "the tree", labels: str = "every") -> Tree:
    """A tree from nested JSON. A node is an object with some of `label`, `symbol` (the token that it reads) and `children`; a
    list stands for a node that has only children, and a text, number or truth value for a leaf that reads it.

    `{"label": "yes", "children": ["not", {"symbol": "VP", "children": ["so", "good"]}]}`
    """
    choose_from("labels", labels, LABELS)
    tokens: list[str | None] = []
    parents: list[int] = []
    found: list[str | None] = []
    waiting: list[tuple[int, Any]] = [(-1, value)]
    while waiting:
        parent, node = waiting.pop()
        here = len(parents)
        children: Any = []
        token = label = None
        if isinstance(node, dict):
            strange = [key for key in node if key not in ("label", "symbol", "children")]
            if strange:
                raise DataError(f"{where}: a node has label, symbol and children, but here is {quoted(strange[0])}.")
            token, label, children = node.get("symbol"), node.get("label"), node.get("children") or []
            if not isinstance(children, list) or isinstance(token, list | dict) or isinstance(label, list | dict):
                raise DataError(f"{where}: children must be a list, symbol and label a text or a number.")
        elif isinstance(node, list):
            children = node
        else:
            token = node
        if token is None and not children:
            raise DataError(f"{where}: a node has neither a symbol nor children. Give it one of them.")
        parents.append(parent)
        tokens.append(None if token is None else _as_text(token))
        found.append(None if label is None or (parent >= 0 and labels != "every") else _as_text(label))
        waiting += [(here, child) for child in reversed(children)]
    return Tree(tokens, parents, found)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# -- Python source -----------------------------------------------------------------------------------------------------


def python_trees(documents: Iterable[Document]) -> list[Tree]:
    """The syntax tree of each function and method. Its label is the folder or file, of those that were read, that it is in.

    A node reads the kind of syntax (`If`, `Call`); names are leaves of their own, and a constant is a leaf that reads its type.
    """
    trees = []
    for document in documents:
        label = document.name.split("/")[0].removesuffix(".py")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the source's own style
                module = ast.parse(document.text)
        except SyntaxError as error:
            where = f"{document.name}, line {error.lineno}, column {error.offset}"
            raise DataError(f"{where}: this is not Python ({error.msg}). Leave the file out.") from None
        except (RecursionError, MemoryError, ValueError) as error:
            raise DataError(
                f"{document.name} cannot be parsed as Python ({error!s:.80}). Leave the file out."
            ) from None
        waiting: list[ast.AST] = [module]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                trees.append(_syntax_tree(node, label))
            elif isinstance(node, ast.Module | ast.ClassDef):
                waiting += reversed(node.body)
    return trees


def _syntax_tree(root: ast.AST, label: str) -> Tree:
    tokens: list[str | None] = []
    parents: list[int] = []
    waiting: list[tuple[int, Any]] = [(-1, root)]
    while waiting:
        parent, node = waiting.pop()
        here = len(parents)
        parents.append(parent)
        tokens.append(type(node).__name__ if isinstance(node, ast.AST) else str(node))
        if isinstance(node, ast.Constant):
            waiting.append((here, type(node.value).__name__))
        elif isinstance(node, ast.AST):
            fields = [value for name, value in ast.iter_fields(node) if name not in ("ctx", "type_comment", "lineno")]
            items = [item for value in fields for item in (value if isinstance(value, list) else [value])]
            waiting += [(here, item) for item in reversed(items) if isinstance(item, ast.AST | str)]
    return Tree(tokens, parents, [label, *[None] * (len(tokens) - 1)])
