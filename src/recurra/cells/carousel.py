from recurra.cells.notation import cell
from recurra.cells.operations import sigmoid


@cell(bias={"open": -2.0})
def carousel(x, U, h):
    """The constant error carousel alone: a sum behind a gate, with gradients that neither fade nor grow.

    Hochreiter & Schmidhuber 1997, before the forget gate. The gate sees the input only; it is steep and starts shut, so that
    thousands of steps of nothing add nothing. For adding over thousands of steps.
    """
    return h + sigmoid(4 * x.open) * x.h
