"""Classify the texts of a pandas DataFrame, and a list of NumPy arrays of unequal length."""

import numpy as np
import pandas as pd

import recurra as rc

views = ["a fine film", "a poor film", "what a fine story", "what a poor story", "fine", "poor"]
frame = pd.DataFrame({"text": views * 20, "label": ["good", "bad"] * 60})
run = rc.train("classify", data=frame, steps=60, hidden_size=16)
print(run.evaluate(), run.predict(["a fine story", "a poor story"]), sep="\n\n")

random = np.random.default_rng(0)
walks = [random.normal(size=(length, 1)).cumsum(0) for length in random.integers(5, 40, size=300)]
labels = ["up" if walk[-1] > walk[0] else "down" for walk in walks]
run = rc.train("classify", data=(walks, labels), steps=100, hidden_size=16)
evaluation = run.evaluate()
evaluation.plot("confusion.png")
print(evaluation, run.predict(walks[:3]), sep="\n\n")
