from recurra.cells.notation import cell
from recurra.cells.operations import linear, tanh
from recurra.cells.parameters import Learned


@cell
def jordan(x, U, y, *, b=Learned(0.0), activation=linear):
    """Recurrence from the output alone: the hidden layer sees what the network last said, not what it last thought.

    Jordan 1986, Serial Order. Weaker than `elman`, but with the true outputs put in the place of y every step can be
    trained at the same time (teacher forcing).
    """
    h = tanh(x.h + U.h(y))
    return activation(U.y(h) + b)
