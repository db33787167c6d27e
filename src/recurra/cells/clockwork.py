from recurra.cells.notation import cell
from recurra.cells.operations import tanh, where
from recurra.cells.parameters import Fixed, Groups


@cell
def clockwork(x, U, h, clock, *, period=Fixed(Groups([1, 2, 4, 8]))):
    """Equal groups of units, each updated every `period` steps and held in between: several time scales in one layer.

    After Koutník et al. 2014, A Clockwork RNN; here fast groups may feed slow ones too. The clock is part of the state, so
    a sequence can be split anywhere.
    """
    n = tanh(x.h + U.h(h))
    return where(clock < 0.5, n, h), (clock + 1) % period
