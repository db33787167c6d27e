from recurra.cells.notation import cell
from recurra.cells.operations import sigmoid, tanh


@cell(bias={"f": 1.0})
def lstm_coupled(x, U, h, c):
    """LSTM that writes exactly what it forgets: the input gate is 1 - f. A quarter fewer parameters.

    Greff et al. 2017, LSTM: A Search Space Odyssey (the variant CIFG), where it does as well as the full cell.
    """
    f, o = sigmoid(x.f + U.f(h)), sigmoid(x.o + U.o(h))
    g = tanh(x.c + U.c(h))
    c = f * c + (1 - f) * g
    return o * tanh(c), c
