"""A recipe: a function that gives settings that work, and that makes the task which they describe when it is called.

```python
@recipe(LanguageTask)
def text() -> LanguageSettings:
    \"\"\"any text file: data.path=FILE\"\"\"
    return LanguageSettings(data=TextData(valid=0.1, test=0.0), ...)

task = text(data="tale.txt", cell="gru", hidden_size=256)
```

A recipe may have a rule: settings that follow from the data where they are not given. Its docstring says what follows from what.

```python
@text.rule
def text_rule(task: LanguageTask) -> Iterator[Derived]:
    \"\"\"model.hidden_size follows from the number of tokens\"\"\"
    tokens = len(task.corpus.train[0])
    yield Derived("model.hidden_size", 128 if tokens < 100_000 else 320, f"{tokens:,} tokens")
```
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recurra.data.in_memory import write_data
from recurra.errors import OptionError
from recurra.tasks.settings import override, read_changes, written
from recurra.tasks.task import Task
from recurra.training.distributed import Ranks

EMBEDDING = "model.embedding_size"

RECIPES: dict[str, Recipe] = {}
"""Every recipe by its name (`recurra.tasks.catalogue` imports them all)."""


@dataclass(frozen=True)
class Derived:
    """A setting whose value follows from the data, and from what of it."""

    key: str
    value: Any
    why: str

    def __str__(self) -> str:
        return f"{self.key}={written(self.value)} ({self.why})"


Rule = Callable[[Any], Iterable[Derived]]
"""A task whose data can be read, to the settings that follow from it."""


class Recipe:
    """Defaults of a task under a name. Call it with settings for the task."""

    def __init__(self, task: type[Task[Any]], make: Callable[[], Any], name: str | None = None):
        self.task, self.make = task, make
        self.name = name or make.__name__.replace("_", "-")
        self.about = " ".join((make.__doc__ or "").split())
        self.__doc__ = self.about
        self.derive: Rule | None = None

    def rule(self, derive: Rule) -> Rule:
        """Make a function the recipe's rule: what settings that are not given follow from."""
        self.derive = derive
        return derive

    @property
    def settings(self) -> Any:
        """The settings with their defaults."""
        return replace(self.make(), name=self.name)

    def __call__(self, data: Any = None, **settings: Any) -> Task[Any]:
        """The task.

        - `data`: a path, or the data itself: a list of strings, NumPy arrays, tensors, a pandas DataFrame, a list of sequences.
          Data that is no path is written to disk once, and a run keeps it in its folder.
        - `settings`: by name, as in `text(data="tale.txt", hidden_size=256)` or `text(**{"training.steps": 100})`.
        """
        return self.configure(settings, data)

    def configure(self, changes: Mapping[str, Any] | list[str], data: Any = None, ranks: Ranks = Ranks()) -> Task[Any]:
        """The task with some settings changed."""
        if data is not None and self.task.data_kind is None:
            raise OptionError(f"the data of {self.name} is synthetic: leave data out. See recurra recipes {self.name}.")
        # what is for files is judged with one: the path itself, or where an object is going to be
        made = override(self.settings, changes if data is None else _with_path(changes, data))
        staged: Path | None = None
        if data is not None:
            if isinstance(data, str | os.PathLike):
                check_path(data)
            else:
                assert self.task.data_kind is not None
                staged = stage_data(self.task.data_kind, data, **self.task.data_options(made))
            made = override(made, {"data.path": str(staged or data)})
        task = self.task(made, ranks)
        task.staged, task.given = staged, frozenset(read_changes(self.settings, changes))
        if staged is not None:
            weakref.finalize(task, shutil.rmtree, staged.parent, ignore_errors=True)
        return task

    def __repr__(self) -> str:
        return f"<recipe {self.name}: {self.about}>"


def follow_data(task: Task[Any]) -> list[Derived]:
    """Give the settings of a task that its user did not give the values that follow from its data; which, and why."""
    chosen = RECIPES.get(task.settings.name)
    if chosen is None or task.given is None:
        return []
    found = [each for each in (chosen.derive(task) if chosen.derive else ()) if each.key not in task.given]
    found = [*(each for each in found if each.key != EMBEDDING or task.word_start is None), *_of_vectors(task)]
    task.settings = override(task.settings, {each.key: each.value for each in found})
    if any(each.key.startswith("data.") for each in found):
        task.forget()
    return found


def _of_vectors(task: Task[Any]) -> Iterator[Derived]:
    """The size of the vectors that a file has."""
    start = task.word_start
    if start is None:
        return
    size, asked = start.vectors.size, task.settings.model.embedding_size
    if EMBEDDING in (task.given or ()) and asked != size:
        raise OptionError(
            f"{EMBEDDING}={asked} was asked for, but data.embeddings={task.settings.data.embeddings:.60} has vectors of "
            f"{size} numbers. Leave it out."
        )
    yield Derived(EMBEDDING, size, str(start))


def _with_path(changes: Mapping[str, Any] | list[str], data: Any) -> Mapping[str, Any] | list[str]:
    path = os.fspath(data) if isinstance(data, str | os.PathLike) else "data"
    if isinstance(changes, Mapping):
        return {**changes, "data.path": str(path)}
    return [*changes, f"data.path={path}"]


def recipe(task: type[Task[Any]], name: str | None = None) -> Callable[[Callable[[], Any]], Recipe]:
    """Make a function that returns settings a recipe of `task`, under the function's name (or another) and docstring."""

    def register(make: Callable[[], Any]) -> Recipe:
        made = Recipe(task, make, name)
        RECIPES[made.name] = made
        return made

    return register


def stage_data(kind: str, data: Any, **options: bool) -> Path:
    """Data that is no path, written to a temporary folder; who asked for it removes the folder."""
    folder = Path(tempfile.mkdtemp(prefix="recurra-"))
    try:
        return write_data(kind, data, folder, **options)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def check_path(data: str | os.PathLike[str]) -> str:
    """Data that is given as a path; a text itself is refused."""
    path = os.fspath(data)
    if "\n" in path or len(path) > 1000:
        raise OptionError(
            f"data={path[:30]!r}… is a text, and a path is asked for. Give the text in a list: data=[text]."
        )
    return path
