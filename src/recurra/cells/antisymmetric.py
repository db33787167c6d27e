from recurra.cells.notation import cell
from recurra.cells.operations import tanh


@cell(constrain={"h": "antisymmetric"})
def antisymmetric(x, U, h, *, step=0.1, damping=0.01):
    """A step of a differential equation whose matrix is antisymmetric: its eigenvalues are imaginary, so that the state
    turns without growing or shrinking and gradients last.

    Chang et al. 2019, AntisymmetricRNN. For long memory; smaller `step` is more stable.
    """
    return h + step * tanh(x.h + U.h(h) - damping * h)
