from recurra.cells.notation import cell
from recurra.cells.operations import tanh
from recurra.cells.parameters import Learned


@cell
def deep_transition_skip(x, U, h, *, b=Learned(0.0)):
    """Hidden to hidden through two layers, and past them: a skip connection inside the step keeps the path short.

    Pascanu et al. 2014, How to Construct Deep Recurrent Neural Networks (DT(S)-RNN). As `deep_transition`, but a gradient can
    take U.skip from step to step instead of two matrices and two activations.
    """
    m = tanh(x.h + U.h(h))
    return tanh(U.deep(m) + U.skip(h) + b)
