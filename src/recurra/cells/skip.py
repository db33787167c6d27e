from recurra.cells.notation import ago, cell
from recurra.cells.operations import tanh


@cell
def skip(x, U, h, *, d=4):
    """A second path that is d steps long: gradients reach d times further back in as many factors.

    Lin et al. 1996, Learning Long-Term Dependencies in NARX Recurrent Neural Networks.
    """
    return tanh(x.h + U.h(h) + U.far(ago(h, d)))
