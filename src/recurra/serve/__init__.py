"""Models over HTTP: batch verbs, and sessions that keep the state of a stream. Called, as `rc.serve(run)`, it serves runs.

```python
run = rc.train("tomita", steps=5)
with rc.serve(run, port=0, store="memory", background=True) as server:
    print(server.url)                                               # http://127.0.0.1:PORT
```
"""

from recurra.rooms import make_callable

make_callable(__name__, "recurra.serve.server", "serve")
