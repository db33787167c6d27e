from recurra.cells.notation import cell
from recurra.cells.operations import tanh


@cell
def elman(x, U, h, *, activation=tanh):
    """The simple recurrent network: the next state is a function of the input and the state.

    Elman 1990, Finding Structure in Time. For short dependencies, for teaching, and as the yardstick of all others.
    With `activation="linear"` the gradient neither saturates nor is bounded: it grows or shrinks as powers of U.
    """
    return activation(x.h + U.h(h))
