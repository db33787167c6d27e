"""A run of `fit` with carried state, on all ranks: `python -m torch.distributed.run … fit_on_ranks.py OUT STEPS`."""

import sys

import torch

import recurra as rc
from recurra.training.loop import Trainer

ADVANCE = Trainer.advance


class Net(torch.nn.Module):
    """A recurrent layer of torch, whose state has its layers before its rows, and a head."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.rnn = torch.nn.GRU(2, 6, num_layers=2, batch_first=True, dtype=torch.float64)
        self.head = torch.nn.Linear(6, 1, dtype=torch.float64)


def loss(model, batch, state):
    x, y = batch
    hidden, state = model.rnn(x, None if state is None else state["h"])
    return (model.head(hidden) - y).square().mean(), {"h": state, "seen": torch.tensor(1.0)}


def batches():
    draw = torch.Generator().manual_seed(0)
    for _ in range(8):
        x = torch.randn(5, 12, 2, generator=draw, dtype=torch.float64)  # 5 rows: two ranks have 3 and 2
        yield x, x.cumsum(1)[..., :1]


def train(out, stop=None):
    """Train for 20 steps; `stop`: as Ctrl-C after so many."""

    def advance(self, batch):
        ADVANCE(self, batch)
        if self.step == stop:
            self.asked_to_stop = "stopped"

    Trainer.advance = advance
    try:
        how = {"truncation": "every:4", "steps": 20, "save_every": 3, "progress": "none", "dtype": "float64"}
        return rc.fit(Net(), batches, loss=loss, out=out, **how)
    finally:
        Trainer.advance = ADVANCE


if __name__ == "__main__":
    train(sys.argv[1], *map(int, sys.argv[2:]))
