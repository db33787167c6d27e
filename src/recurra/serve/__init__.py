"""Models over HTTP: batch verbs, and sessions that keep the state of a stream. Called, as `rc.serve(run)`, it serves runs.

```python
run = rc.train("tomita", steps=5)
with rc.serve(run, port=0, store="memory", background=True) as server:
    print(server.url)                                               # http://127.0.0.1:PORT
```
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Serve(ModuleType):
    """The room and the function share a name, so the room can be called."""

    def __call__(self, *runs: Any, **options: Any) -> Any:
        return import_module("recurra.serve.server").serve(*runs, **options)


sys.modules[__name__].__class__ = _Serve
