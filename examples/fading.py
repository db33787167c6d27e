"""A cell of one's own: two memories that fade at different speeds, and a gate that chooses between them.

Check it:  recurra check examples/fading.py:fading
"""

from recurra import Learned, cell, sigmoid, tanh


@cell
def fading(x, U, h, slow, *, keep=Learned(0.95, low=0, high=1)):
    """A fast state and a slow one, read through a gate."""
    g = sigmoid(x.g + U.g(h))
    n = tanh(x.n + U.n(h) + U.s(slow))
    slow = keep * slow + (1 - keep) * n
    return g * n + (1 - g) * slow, slow
