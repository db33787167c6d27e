from recurra.cells.notation import cell
from recurra.cells.operations import sigmoid


@cell(bias={"f": 1.0})
def minlstm(x, U, h):
    """An LSTM whose gates see only the input, with forget and input gate normalised to sum to 1; linear in the state.

    Feng et al. 2024, Were RNNs All We Needed?
    """
    f, i = sigmoid(x.f), sigmoid(x.i)
    return (f * h + i * x.h) / (f + i)
