from recurra.cells.notation import cell
from recurra.cells.operations import tanh
from recurra.cells.parameters import Learned


@cell
def deep_transition(x, U, h, *, b=Learned(0.0)):
    """Hidden to hidden through two layers: more computation in each step, at the price of a longer path for gradients.

    Pascanu et al. 2014, How to Construct Deep Recurrent Neural Networks.
    """
    m = tanh(x.h + U.h(h))
    return tanh(U.deep(m) + b)
