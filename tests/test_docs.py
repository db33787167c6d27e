"""The documentation runs, by public names alone: every Python block, every `$ recurra` line; every link leads somewhere."""

import ast
import re
import runpy
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer.main

import recurra as rc
from recurra.cli.main import app, run

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
ROOMS = ("models", "data", "training", "analysis", "plots", "metrics", "lecture")
NOT_RUN = re.compile(r"<!--\s*not run:\s*\S.*-->\s*")


@dataclass
class Block:
    language: str
    line: int  # of its first line of code, from 1
    text: str
    skipped: bool


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page; one that follows `<!-- not run: reason -->` is skipped."""
    lines = page.read_text(encoding="utf-8").splitlines()
    opened, before = None, ""
    for number, line in enumerate(lines):
        if opened is None and line.startswith("```"):
            opened = (line[3:].strip(), number + 1, bool(NOT_RUN.fullmatch(before)))
        elif opened is not None and line.rstrip() == "```":
            language, start, skipped = opened
            yield Block(language, start + 1, "\n".join(lines[start:number]) + "\n", skipped)
            opened, before = None, ""
        elif opened is None and line.strip():
            before = line.strip()
    assert opened is None, f"{page}: the block that starts at line {opened and opened[1]} is never closed"


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to a page's headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+\s+(.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a page runs: a folder of its own, with the examples in it."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "reference.md"], ids=name)
def test_python_blocks_run(page: Path) -> None:
    """All but the reference, whose blocks are those of docstrings: `test_public.py` runs them."""
    namespace: dict[str, object] = {"__name__": "documentation"}
    for block in blocks(page):
        if block.language == "python" and not block.skipped:
            # blank lines first, so that an error names the line of the page
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), namespace)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_run(page: Path) -> None:
    for block in blocks(page):
        if block.language == "console" and not block.skipped:
            for line in block.text.splitlines():
                if line.startswith("$ recurra "):
                    assert run(shlex.split(line, comments=True)[2:]) == 0, f"{name(page)}: {line}"


def private_names(code: str) -> list[str]:
    """What a block takes from recurra and a user should not: `import recurra as rc` and the public names are all there is.

    A block that defines a cell may import the notation, so that its equations read as mathematics.
    """
    tree = ast.parse(code)
    found = []
    defines_a_cell = "@cell" in code or "@rc.cell" in code
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [
                each.name
                for each in node.names
                if each.name.split(".")[0] == "recurra" and (each.name, each.asname) != ("recurra", "rc")
            ]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "recurra":
            allowed = (
                set(rc.__all__) - {*ROOMS, "train", "fit", "open", "runs", "Recurrent"} if defines_a_cell else set()
            )
            if node.module != "recurra" or not {each.name for each in node.names} <= allowed:
                found.append(f"from {node.module} import {', '.join(each.name for each in node.names)}")
        elif isinstance(node, ast.Attribute):
            written = ast.unparse(node).split(".")
            if written[0] != "rc" or len(written) > 3:
                continue
            room = rc if len(written) == 2 else getattr(rc, written[1], None) if written[1] in ROOMS else None
            if room is not None and written[-1] not in room.__all__:
                found.append(".".join(written))
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_blocks_use_public_names(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python":
            assert not private_names(block.text), f"{name(page)}, line {block.line}: {private_names(block.text)}"


def test_the_reference_is_up_to_date() -> None:
    made = runpy.run_path(str(ROOT / "docs/make_reference.py"))
    assert (ROOT / "docs/reference.md").read_text(encoding="utf-8") == made["reference"](), "run `make docs`"
    listed = {name for names in made["GROUPS"].values() for name in names} | {*made["OPERATIONS"], *made["ROOMS"]}
    assert set(rc.__all__) <= listed, "name it in GROUPS of docs/make_reference.py"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{name(page)} links to {target}, which does not exist"
        if anchor:
            assert anchor in anchors(file), f"{name(page)} links to {target}; that page has no such heading"


ROW = r"^\| (\d+) \| (.*?) \| (.*?) \| (.*?) \| (.*?) \|$"
MAP = re.findall(ROW, (ROOT / "docs/index.md").read_text(encoding="utf-8"), flags=re.MULTILINE)


def sections(page: Path) -> dict[str, list[Block]]:
    """The blocks of a page by the heading that they stand under; those of a heading are also those of the headings below it."""
    heads: list[tuple[int, int, str]] = []  # line, level, anchor
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        inside ^= line.startswith("```")
        if not inside and (found := re.match(r"(#+)\s+(.*)", line)):
            anchor = re.sub(r"[^\w\- ]", "", found[2].lower()).strip().replace(" ", "-")
            heads.append((number, len(found[1]), anchor))
    made = {}
    for k, (start, level, anchor) in enumerate(heads):
        end = next((line for line, other, _ in heads[k + 1 :] if other <= level), 10**9)
        made[anchor] = [block for block in blocks(page) if start < block.line < end]
    return made


def is_run(block: Block) -> bool:
    return not block.skipped and (block.language == "python" or (block.language == "console" and "$ rec" in block.text))


def test_all_50_rows_are_on_the_map() -> None:
    assert [int(number) for number, *_ in MAP] == list(range(1, 51))


@pytest.mark.parametrize("row", MAP, ids=lambda row: row[0])
def test_a_row_names_a_function_a_command_and_an_example_that_runs(row: tuple[str, ...]) -> None:
    _, _, functions, commands, examples = row
    assert "`" in functions
    for path in re.findall(r"\brc\.([\w.]+)", functions):
        value: object = rc
        for part in path.split("."):
            value = getattr(value, part)
    for method in re.findall(r"\brun\.(\w+)\(", functions):
        assert callable(getattr(rc.Run, method))
    for cell in re.findall(r"the cells? ((?:`\w+`(?:, )?)+)", functions):
        assert {name.strip("`") for name in cell.split(", ")} <= {*rc.CATALOGUE}
    asked = re.findall(r"`recurra ([^`]+)`", commands)
    assert asked
    for command in asked:
        verb, *rest = shlex.split(command)
        assert run([verb, *(rest[:1] if verb in ("bench", "lecture") else []), "--help"]) == 0, command
        if verb == "train":
            rc.RECIPES[rest[0]].configure(rest[1:])
        for option in (each for each in rest if each.startswith("--")):
            assert option in options_of(verb), f"{command}: no {option}"
    linked = re.findall(r"\]\(([^)#\s]+)(?:#([^)\s]+))?\)", examples)
    found = [
        sections(ROOT / "docs" / page)[anchor] if anchor else [*blocks(ROOT / "docs" / page)] for page, anchor in linked
    ]
    assert any(is_run(block) for section in found for block in section), f"no example of {examples} is run"


def options_of(verb: str) -> set[str]:
    command = typer.main.get_command(app)
    return {name for parameter in command.commands[verb].params for name in parameter.opts}  # type: ignore[attr-defined]


class TestTheReaderItself:
    def test_blocks_in_order_with_their_lines(self, tmp_path: Path) -> None:
        page = tmp_path / "page.md"
        page.write_text(
            "# a\n\n```python\nx = 1\n```\n\n<!-- not run: needs a GPU -->\n```python\n1 / 0\n```\n\n```text\n```\n"
        )
        found = list(blocks(page))
        assert [(b.language, b.line, b.skipped) for b in found] == [
            ("python", 4, False),
            ("python", 9, True),
            ("text", 13, False),
        ]
        assert found[0].text == "x = 1\n"

    def test_a_reason_is_needed(self, tmp_path: Path) -> None:
        page = tmp_path / "page.md"
        page.write_text("<!-- not run: -->\n```python\n1 / 0\n```\n")
        assert not next(blocks(page)).skipped

    def test_a_block_that_fails_fails_the_test(self, tmp_path: Path) -> None:
        page = tmp_path / "page.md"
        page.write_text("words\n\n```python\na = 1\n```\n\n```python\nassert a == 2\n```\n")
        with pytest.raises(AssertionError) as error:
            test_python_blocks_run(page)
        assert error.traceback[-1].lineno + 1 == 8  # blocks share names, and errors name the line of the page

    @pytest.mark.parametrize(
        "code",
        [
            "import recurra",
            "import recurra.models",
            "from recurra import Recurrent",
            "from recurra.models.tag import Tagger",
            "import recurra as rc\nrc.models.tag.Tagger",
            "import recurra as rc\nrc.tasks",
            "from recurra import cell, train\n@cell\ndef f(x, U, h):\n    return x.h",
        ],
    )
    def test_private_names_are_found(self, code: str) -> None:
        assert private_names(code)

    @pytest.mark.parametrize(
        "code",
        [
            "import recurra as rc\nrc.models.Tagger\nrc.train('text').evaluate()\nrc.Recurrent.from_torch",
            "from recurra import cell, tanh\n@cell\ndef f(x, U, h):\n    return tanh(x.h)",
        ],
    )
    def test_public_names_pass(self, code: str) -> None:
        assert not private_names(code)
