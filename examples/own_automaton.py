"""Train a network of one's own on strings, and read off the finite automaton that it became."""

import torch

import recurra as rc

layer, head = rc.Recurrent("gru", 2, 12), torch.nn.Linear(12, 2)
model = torch.nn.ModuleList([layer, head])


def batches():
    """Strings of bits, and after each bit whether the ones so far are odd."""
    for _ in range(100):
        bits = torch.randint(2, (64, 20))
        yield torch.nn.functional.one_hot(bits, 2).float(), bits.cumsum(1) % 2


def loss(model, batch):
    return torch.nn.functional.cross_entropy(head(layer(batch[0]).outputs).flatten(0, 1), batch[1].flatten())


rc.fit(model, batches, loss=loss, steps=400, learning_rate=0.02)
found = rc.extract_automaton(layer, "01", ("even", "odd"), head)
print(found, found.machine, sep="\n\n")
found.plot("automaton.svg")
