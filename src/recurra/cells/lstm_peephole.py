from recurra.cells.notation import cell
from recurra.cells.operations import sigmoid, tanh
from recurra.cells.parameters import Learned


@cell(bias={"f": 1.0})
def lstm_peephole(x, U, h, c, *, p_i=Learned(0.0), p_f=Learned(0.0), p_o=Learned(0.0)):
    """LSTM whose gates also look at the cell state, each unit at its own.

    Gers & Schmidhuber 2000, Recurrent Nets that Time and Count. For precise timing and counting.
    """
    i = sigmoid(x.i + U.i(h) + p_i * c)
    f = sigmoid(x.f + U.f(h) + p_f * c)
    g = tanh(x.c + U.c(h))
    c = f * c + i * g
    o = sigmoid(x.o + U.o(h) + p_o * c)
    return o * tanh(c), c
