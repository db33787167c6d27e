"""Run folders on disk: recipe, checkpoints, metrics, lock. Called, as `rc.runs("runs")`, it lists the runs of a folder.

```python
rc.train("tomita", steps=5, out="runs/a")
[run.path for run in rc.runs("runs")]
```
"""

from recurra.rooms import make_callable

make_callable(__name__, "recurra.tasks.train", "runs")
