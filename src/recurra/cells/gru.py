from recurra.cells.notation import cell
from recurra.cells.operations import sigmoid, tanh


@cell
def gru(x, U, h):
    """Gated recurrent unit, reset before the product.

    The reset gate is that of Cho et al. 2014, Learning Phrase Representations using RNN Encoder-Decoder; z is the share that is
    new, as in Chung et al. 2014 (Cho and `torch.nn.GRU` have 1 − z). As good as `lstm` on many tasks with one state instead of
    two. `torch.nn.GRU` and cuDNN reset after the product, which is another cell: `gru_after`.
    """
    z = sigmoid(x.z + U.z(h))
    r = sigmoid(x.r + U.r(h))
    n = tanh(x.n + U.n(r * h))
    return (1 - z) * h + z * n
