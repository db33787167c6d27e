from math import pi

from recurra.cells.notation import cell
from recurra.cells.operations import cos, sin
from recurra.cells.parameters import Fixed, Scattered


@cell
def rotation(x, U, h, s, *, turn=Fixed(Scattered(0.0, pi))):
    """Each unit turns in a plane of its own by its own angle: linear, and what is there neither fades nor grows.

    The eigenvalues of a unitary matrix (Arjovsky et al. 2016), written as a diagonal: a clock with many hands, in
    which a symbol's place is its phase. The angles are not learned: over T steps a change of one counts T times. For copying
    over thousands of steps.
    """
    return cos(turn) * h - sin(turn) * s + x.h, sin(turn) * h + cos(turn) * s + x.s
