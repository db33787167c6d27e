"""Run folders on disk: recipe, checkpoints, metrics, lock. Called, as `rc.runs("runs")`, it lists the runs of a folder.

```python
rc.train("tomita", steps=5, out="runs/a")
[run.path for run in rc.runs("runs")]
```
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Runs(ModuleType):
    """The room and the function share a name, so the room can be called."""

    def __call__(self, folder: Any = "runs") -> Any:
        return import_module("recurra.tasks.train").runs(folder)


sys.modules[__name__].__class__ = _Runs
