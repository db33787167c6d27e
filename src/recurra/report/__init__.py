"""One page about a run: each section in a file of its own, `contents.py` has them in order."""
