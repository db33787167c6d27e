from recurra.cells.notation import cell
from recurra.cells.operations import relu
from recurra.cells.parameters import Learned, Ramp


@cell
def indrnn(x, U, h, *, u=Learned(Ramp(0.0, 1.0)), activation=relu):
    """Independently recurrent: each unit sees its own past alone, through one weight. Stack layers to mix units.

    Li et al. 2018, Independently Recurrent Neural Network. The gradient over k steps is u^k: easy to keep in bounds.
    """
    return activation(x.h + u * h)
