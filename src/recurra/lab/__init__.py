"""The lab: a live page in the browser about the runs of a folder. Called, as `rc.lab(run)`, it opens the page.

```python
run = rc.train("tomita", steps=5, out="runs/lab")
lab = rc.lab(run, browser=False)            # in a notebook the page itself is shown
lab.address                                 # http://127.0.0.1:PORT/TOKEN/#/…
lab.close()
```
"""

from recurra.rooms import make_callable

make_callable(__name__, "recurra.lab.server", "open_lab")
