from recurra.cells.notation import cell
from recurra.cells.operations import tanh
from recurra.cells.parameters import Learned


@cell
def leaky(x, U, h, *, alpha=Learned(0.9, low=0, high=1)):
    """Leaky units: a running average with a time constant for each unit, learned or (`leaky(alpha=0.9)`) fixed.

    Mozer 1992; Jaeger et al. 2007. alpha near 1 remembers long, alpha near 0 forgets at once; about 1 / (1 - alpha) steps.
    """
    return alpha * h + (1 - alpha) * tanh(x.h + U.h(h))
