"""A cell of one's own, written as its equations: where does it stand still, and where do its states go?"""

import torch

import recurra as rc
from recurra import Learned, cell, tanh


@cell
def decider(x, U, h, *, pace=Learned(0.2, low=0, high=1)):
    """A leaky unit that amplifies what it holds: it decides for one side."""
    return (1 - pace) * h + pace * tanh(x.h + U.h(h))


torch.manual_seed(0)
layer = rc.Recurrent(decider, input_size=1, hidden_size=2)
with torch.no_grad():
    layer.stack[0][0].U.copy_(torch.tensor([[2.0, -0.5], [-0.5, 2.0]]))  # each excites itself and inhibits the other
points = rc.find_fixed_points(layer, starts=512)
print(points.table())
points.plot("fixed_points.svg")
rc.vector_field(layer).plot("field.svg")
print(rc.lyapunov(layer, torch.randn(100, 1)))
