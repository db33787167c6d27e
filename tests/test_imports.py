"""Imports point one way, and `import recurra` needs little more than torch."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import recurra

SOURCE = Path(recurra.__file__).parent
ORDER = (
    ("types", "errors", "results", "rooms"),
    ("data", "metrics"),
    ("cells",),
    ("engines",),
    ("layers",),
    ("models",),
    ("runs",),
    ("training", "analysis"),
    ("lecture",),
    ("plots", "export"),
    ("tasks",),
    ("serve",),
    ("report", "benchmarks"),
    ("cli", "lab"),
)
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}
ROOT = "the package itself"
ALLOWED_BELOW_ALL = ("__version__",)


def room_of(file: Path, source: Path) -> str:
    first = file.relative_to(source).parts[0].removesuffix(".py")
    return ROOT if first in ("__init__", "__main__") else first


def imported_rooms(file: Path, source: Path) -> set[str]:
    """The rooms of recurra that a file imports from, anywhere in it."""
    public = {} if file == source / "__init__.py" else public_names(source)
    inside = ("recurra", *file.relative_to(source).parts[:-1])
    rooms = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            paths = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = inside[: len(inside) - node.level + 1] if node.level else ()
            base = [*start, *(node.module.split(".") if node.module else ())]
            paths = [[*base, alias.name] for alias in node.names]
        else:
            continue
        for path in paths:
            if path[0] != "recurra":
                continue
            name = path[1] if len(path) > 1 else ""
            if name in RANK:
                rooms.add(name)
            elif name not in ALLOWED_BELOW_ALL:
                rooms |= {public[name]} if name in public else {ROOT}
    return rooms


def public_names(source: Path) -> dict[str, str]:
    """Which room each name of `recurra/__init__.py` comes from."""
    file = source / "__init__.py"
    return {
        alias.asname or alias.name: node.module.split(".")[1]
        for node in ast.walk(ast.parse(file.read_text() if file.exists() else ""))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("recurra.")
        for alias in node.names
    }


def violations(source: Path) -> list[str]:
    """Every import that points the wrong way, in words."""
    found = []
    for file in sorted(source.rglob("*.py")):
        room = room_of(file, source)
        if room == ROOT:
            continue
        if room not in RANK:
            found.append(f"{file}: {room} has no place in the order of imports")
            continue
        for other in sorted(imported_rooms(file, source) - {room}):
            below = other in RANK and RANK[other] <= RANK[room]
            if (
                not below
                or (room, other) == ("analysis", "training")
                or (room in ("data", "metrics") and RANK[other] > 0)
            ):
                found.append(f"{file}: {room} imports {other}")
    return found


def test_imports_point_one_way():
    assert violations(SOURCE) == []


def test_the_check_sees_what_it_must(tmp_path):
    """Each file breaks one rule, or none; the check says which."""
    files = {
        "__init__.py": "from recurra.layers.recurrent import Recurrent\nfrom recurra.errors import OptionError\n",
        "types.py": "from recurra.cells.graph import Graph\n",
        "cells/graph.py": "from recurra.types import Shape\nfrom recurra import OptionError\n",
        "cells/late.py": "def f():\n    from recurra.engines import eager\n",
        "cells/root.py": "import recurra\n",
        "engines/relative.py": "from ..layers import recurrent\n",
        "engines/near.py": "from . import relative\nfrom ..cells.graph import Graph\n",
        "engines/public.py": "from recurra import Recurrent\n",
        "layers/recurrent.py": "import recurra.cells.graph\nfrom recurra import __version__\n",
        "data/text.py": "from recurra.cells import graph\n",
        "data/fine.py": "from recurra.errors import OptionError\n",
        "models/fine.py": "from recurra.data import text\n",
        "training/fine.py": "from recurra.runs import folder\nfrom recurra.data import text\n",
        "analysis/wrong.py": "if True:\n    import recurra.training.loop as loop\n",
        "attic/old.py": "",
        "cli/fine.py": "from recurra.lab import server\nfrom recurra.tasks import text\n",
    }
    source = tmp_path / "recurra"
    for name, text in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    assert [line.removeprefix(f"{source}/") for line in violations(source)] == [
        "analysis/wrong.py: analysis imports training",
        "attic/old.py: attic has no place in the order of imports",
        "cells/late.py: cells imports engines",
        f"cells/root.py: cells imports {ROOT}",
        "data/text.py: data imports cells",
        "engines/public.py: engines imports layers",
        "engines/relative.py: engines imports layers",
        "types.py: types imports cells",
    ]


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_import_leaves_out_what_only_some_need():
    code = "import sys, json, recurra; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    loaded = set(json.loads(run(code)))
    assert "torch" in loaded
    assert not loaded & {
        "typer",
        "rich",
        "matplotlib",
        "sklearn",
        "fastapi",
        "onnx",
        "tokenizers",
        "tensorboard",
        "uvicorn",
    }


def test_import_is_quick():
    """At most half as long again as torch alone; measured in one process, so that the machine's load falls on both."""
    code = (
        "from time import perf_counter as now\n"
        "start = now()\nimport torch\nmiddle = now()\nimport recurra\nprint((now() - start) / (middle - start))"
    )
    ratios = []
    for _ in range(5):
        ratios.append(float(run(code)))
        if ratios[-1] < 1.5:
            break
    assert min(ratios) < 1.5
