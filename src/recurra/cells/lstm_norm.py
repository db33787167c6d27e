from recurra.cells.notation import cell, norm
from recurra.cells.operations import sigmoid, tanh
from recurra.cells.parameters import Learned


@cell
def lstm_norm(x, U, h, c, *, b_i=Learned(0.0), b_f=Learned(1.0), b_o=Learned(0.0), b_c=Learned(0.0)):
    """LSTM with each gate and the cell's output normalised over the units, with a learned gain and shift.

    Ba et al. 2016, Layer Normalization; here each gate has its own statistics. Steadier training of deep stacks.
    """
    i = sigmoid(norm(x.i + U.i(h), "i") + b_i)
    f = sigmoid(norm(x.f + U.f(h), "f") + b_f)
    o = sigmoid(norm(x.o + U.o(h), "o") + b_o)
    g = tanh(norm(x.c + U.c(h), "c") + b_c)
    c = f * c + i * g
    return o * tanh(norm(c, "out")), c
