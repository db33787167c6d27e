"""Models leave home: as ONNX, as C, as weights with a graph that other languages can read."""
