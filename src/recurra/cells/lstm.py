from recurra.cells.notation import cell
from recurra.cells.operations import sigmoid, tanh


@cell(bias={"f": 1.0})
def lstm(x, U, h, c, *, candidate=tanh):
    """Long short-term memory: a cell state that gates write, keep and read.

    Hochreiter & Schmidhuber 1997, Long Short-Term Memory; forget gate: Gers et al. 2000. The forget gate's bias starts at
    1, so that the gradient through c is kept at first (Jozefowicz et al. 2015). The choice for most sequences.
    With `candidate="sigmoid"` what is written is never negative, as in Goodfellow et al. 2016, Deep Learning, equation 10.41.
    """
    i, f, o = sigmoid(x.i + U.i(h)), sigmoid(x.f + U.f(h)), sigmoid(x.o + U.o(h))
    g = candidate(x.c + U.c(h))
    c = f * c + i * g
    return o * tanh(c), c
