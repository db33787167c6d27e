"""The lab: a live page in the browser about the runs of a folder. Called, as `rc.lab(run)`, it opens the page.

```python
run = rc.train("tomita", steps=5)
lab = rc.lab(run, browser=False)            # in a notebook the page itself is shown
lab.address                                 # http://127.0.0.1:PORT/TOKEN/#/…
lab.close()
```
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Lab(ModuleType):
    """The room and the function share a name, so the room can be called."""

    def __call__(self, what: Any = "runs", *, port: int | None = None, browser: bool | None = None) -> Any:
        return import_module("recurra.lab.server").open_lab(what, port=port, browser=browser)


sys.modules[__name__].__class__ = _Lab
