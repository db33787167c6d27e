from recurra.cells.notation import ago, cell
from recurra.cells.operations import tanh


@cell
def delayed(x, U, h, *, d=4):
    """Only the path that is d steps long; the connection of length one is removed, so units must work on a slow scale.

    El Hihi & Bengio 1996, Hierarchical Recurrent Neural Networks for Long-Term Dependencies.
    """
    return tanh(x.h + U.h(ago(h, d)))
