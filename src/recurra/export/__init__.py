"""Models leave home: as ONNX, as C, as weights with a graph that other languages can read. Called, as `rc.export(model)`, it
writes one.

```python
layer = rc.Recurrent("gru", 3, 8)
print(rc.export(layer, "onnx", out="gru"))                      # step.onnx and sequence.onnx, checked in ONNX Runtime
```
"""

from recurra.rooms import make_callable

make_callable(__name__, "recurra.export.door", "export")
