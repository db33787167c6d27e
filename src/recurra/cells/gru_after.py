from recurra.cells.notation import cell
from recurra.cells.operations import sigmoid, tanh
from recurra.cells.parameters import Learned


@cell
def gru_after(x, U, h, *, b=Learned(0.0)):
    """Gated recurrent unit, reset after the product: the cell of `torch.nn.GRU` and cuDNN.

    The last form of Cho et al. 2014 as Nvidia's library computes it: one product for all gates, a bias of its own inside
    the reset, and z as the share that is kept.
    """
    r = sigmoid(x.r + U.r(h))
    z = sigmoid(x.z + U.z(h))
    n = tanh(x.n + r * (U.n(h) + b))
    return (1 - z) * n + z * h
