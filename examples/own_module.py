"""A module and a loss of one's own: truncated back-propagation, carried state, and the same weights after a kill."""

import torch

import recurra as rc


class Tracker(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = rc.Recurrent("gru", 1, 24), torch.nn.Linear(24, 1)


def loss(model, batch, state):
    x, y = batch
    trace = model.layer(x, state)
    return (model.head(trace.outputs) - y).square().mean(), trace.final  # the state goes on into the next chunk


torch.manual_seed(0)
noise = torch.randn(8, 4000, 1)
batches = [(x, x.cumsum(1) / 20) for x in noise.split(200, dim=1)]  # 8 streams: each batch goes on where the last ended
run = rc.fit(Tracker(), batches, loss=loss, steps=200, truncation="every:50", save_every=10, out="runs/own")
print(run.outcome, "Run this script again after a kill: it goes on from the last checkpoint.")
