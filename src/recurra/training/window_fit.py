"""The fixed-window language model, trained on random places of a text: a baseline for the recurrent one."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from recurra.models.window import WindowLanguageModel
from recurra.training.schedules import learning_rate


def fit_window_model(
    train: list[Tensor],
    vocabulary_size: int,
    window: int,
    *,
    steps: int = 1500,
    hidden_size: int = 256,
    embedding_size: int = 32,
    seed: int = 0,
) -> WindowLanguageModel:
    """`steps` updates of 1,024 tokens each, with the `window` tokens before each of them; Adam with a cosine."""
    torch.manual_seed(seed)
    model = WindowLanguageModel(vocabulary_size, window, embedding_size, hidden_size)
    optimiser = torch.optim.Adam(model.parameters())
    # one line of tokens, with the sign for "before the text" in front of each sequence
    line = torch.cat([pad(sequence, (window, 0), value=vocabulary_size) for sequence in train])
    targets = (line < vocabulary_size).nonzero()[:, 0]
    targets = targets[line[targets - 1] < vocabulary_size]  # the first token of a sequence is given
    back = torch.arange(-window, 0)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate("cosine", step, steps, steps // 20, 4e-3)
        places = targets[torch.randint(len(targets), (1024,))]
        loss = cross_entropy(model.predict(line[places[:, None] + back]), line[places])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval()
