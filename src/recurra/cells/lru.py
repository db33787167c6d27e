from math import pi

from recurra.cells.notation import cell
from recurra.cells.operations import cos, exp, sigmoid, sin, sqrt
from recurra.cells.parameters import Fixed, Learned, Scattered


@cell
def lru(x, U, h, a, b, *, fade=Learned(Scattered(-7.0, -3.0)), turn=Fixed(Scattered(0.0, pi, step=0.41421356237))):
    """A linear recurrent unit: each unit is a wave that fades and turns at its own rates, read through a gate.

    Orvieto et al. 2023, Resurrecting Recurrent Neural Networks for Long Sequences. The drive is scaled by √(1 − r²), so that
    slow waves do not pile up. The gate reads one of the wave's two coordinates or the other. The angles are not learned:
    over T steps a change of one counts T times. Stack layers, with `residual`, to make more than linear maps of time.
    """
    r = exp(-exp(fade))
    scale = sqrt(1 - r * r)
    a, b = (
        r * (cos(turn) * a - sin(turn) * b) + scale * x.a,
        r * (sin(turn) * a + cos(turn) * b) + scale * x.b,
    )
    o = sigmoid(x.o)
    return o * a + (1 - o) * b, a, b
