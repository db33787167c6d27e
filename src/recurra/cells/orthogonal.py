from recurra.cells.notation import cell
from recurra.cells.operations import relu, sign
from recurra.cells.parameters import Learned


@cell(constrain={"h": "orthogonal"})
def orthogonal(x, U, h, *, b=Learned(0.0)):
    """A recurrent matrix that stays orthogonal (the exponential of an antisymmetric one), with the modReLU nonlinearity.

    Lezcano-Casado & Martínez-Rubio 2019, Cheap Orthogonal Constraints in Neural Networks; Arjovsky et al. 2016. For
    copying over hundreds of steps.
    """
    v = x.h + U.h(h)
    return sign(v) * relu(abs(v) + b)
