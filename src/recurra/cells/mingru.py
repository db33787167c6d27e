from recurra.cells.notation import cell
from recurra.cells.operations import sigmoid


@cell
def mingru(x, U, h):
    """A GRU whose gate and candidate see only the input: linear in the state, so all of time can be computed at once.

    Feng et al. 2024, Were RNNs All We Needed?
    """
    z = sigmoid(x.z)
    return (1 - z) * h + z * x.h
