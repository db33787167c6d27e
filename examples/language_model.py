"""Train a language model on the source of some modules of Python, look at what it learned, and let it write."""

import argparse
import cmd
import inspect
import textwrap

import recurra as rc

sources = [inspect.getsource(module) for module in (argparse, cmd, textwrap)]
run = rc.train("text", data=sources, cell="gru", hidden_size=64, steps=150, learning_rate=0.01)
print(run.evaluate())  # beside the best Markov model
print(run.sample(prime="def ", length=200, seed=0))
print(run.score("return self"))
