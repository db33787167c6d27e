"""Classification of trees: of their roots, or of every node."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recurra.cells.notation import Cell
from recurra.data.forest import Forest
from recurra.layers.dropout import check_share
from recurra.layers.tree import Tree
from recurra.types import Float


class TreeClassifier(nn.Module):
    """A vector for each node's token, a recursive network, and a softmax over the classes at every node.

    - `vocabulary_size`, `classes`: how many tokens and classes there are. `embedding_size`: of a token's vector;
      `hidden_size` if left out.
    - `composition`, `cell`, `arity`: as for `Tree`.
    - `dropout`: of tokens' vectors and of outputs.

    ```python
    forest = rc.data.make_forest([[-1, 0, 0]], [[0, 1, 2]])
    model = rc.models.TreeClassifier(vocabulary_size=20, classes=5, hidden_size=64, composition="child-sum")
    logits = model(forest)          # [N, 5], in the forest's order
    logits[forest.roots]            # [B, 5]
    ```
    """

    def __init__(
        self,
        vocabulary_size: int,
        classes: int,
        hidden_size: int,
        *,
        embedding_size: int | None = None,
        composition: str = "fold",
        cell: Cell | str | None = None,
        arity: int | None = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        size = embedding_size or hidden_size
        self.embedding = nn.Embedding(vocabulary_size, size)
        nn.init.normal_(self.embedding.weight, std=size**-0.5)
        self.tree = Tree(size, hidden_size, composition=composition, cell=cell, arity=arity)
        self.dropout = nn.Dropout(check_share("dropout", dropout))
        self.output = nn.Linear(hidden_size, classes)
        nn.init.zeros_(self.output.bias)

    def forward(self, forest: Forest) -> Float[Tensor, "N C"]:
        """The logits of every node's classes."""
        read = self.dropout(self.embedding(forest.tokens.to(self.output.weight.device)))
        logits: Tensor = self.output(self.dropout(self.tree(read, forest)))
        return logits


class MostFrequent(nn.Module):
    """What a network has to beat: the classes as often as the training trees had them, at roots and at all nodes."""

    def __init__(self, forest: Forest, classes: int):
        super().__init__()
        self.at_roots, self.anywhere = (
            torch.log((torch.bincount(labels[labels >= 0], minlength=classes) + 1.0) / ((labels >= 0).sum() + classes))
            for labels in (forest.labels[forest.roots], forest.labels)
        )

    def forward(self, forest: Forest) -> Float[Tensor, "N C"]:
        return torch.where((forest.parents < 0)[:, None], self.at_roots, self.anywhere)
