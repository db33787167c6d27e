"""Classification of trees: of their roots, or of every node."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recurra.cells.notation import Cell
from recurra.data.forest import Forest
from recurra.layers.dropout import Dropout
from recurra.layers.tree import Tree
from recurra.models.naive_bayes import naive_bayes
from recurra.types import Float


class TreeClassifier(nn.Module):
    """A vector for each node's token, a recursive network, and a softmax over the classes at every node.

    - `vocabulary_size`, `classes`: how many tokens and classes there are. `embedding_size`: of a token's vector;
      `hidden_size` if left out.
    - `composition`, `cell`, `arity`: as for `Tree`.
    - `dropout`: of tokens' vectors and of outputs.
    - `blank`: the token of a node that reads nothing. It has one vector for all nodes of a batch, without dropout.

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
        blank: int | None = None,
    ):
        super().__init__()
        size = embedding_size or hidden_size
        self.embedding = nn.Embedding(vocabulary_size, size)
        nn.init.normal_(self.embedding.weight, std=size**-0.5)
        self.tree = Tree(size, hidden_size, composition=composition, cell=cell, arity=arity)
        self.dropout, self.blank = Dropout(dropout), blank
        self.output = nn.Linear(hidden_size, classes)
        nn.init.zeros_(self.output.bias)

    def forward(self, forest: Forest) -> Float[Tensor, "N C"]:
        """The logits of every node's classes."""
        tokens, rows = forest.tokens, None
        if self.blank is not None:
            reads = tokens != self.blank
            rows = reads.cumsum(0).mul_(reads)  # the blank's vector is the first
            tokens = torch.cat([tokens.new_tensor([self.blank]), tokens[reads]])
        read = self.embedding(tokens.to(self.output.weight.device))
        read = self.dropout(read) if rows is None else torch.cat([read[:1], self.dropout(read[1:])])
        logits: Tensor = self.output(self.dropout(self.tree(read, forest, rows)))
        return logits


class BagOfTokens(nn.Module):
    """What a network has to beat that reads no tree: naive Bayes from the tokens under a node, order and nesting lost. Roots are
    classified by the tokens of roots, other nodes by those of all nodes.

    - `blank`: the token of a node that reads nothing.
    """

    def __init__(self, forest: Forest, vocabulary_size: int, classes: int, blank: int | None = None):
        super().__init__()
        self.blank = blank
        at_roots, anywhere = (torch.zeros(classes, vocabulary_size, dtype=torch.float64) for _ in range(2))
        own = above = torch.arange(forest.nodes)[self._reads(forest)]
        while len(own):  # every token counts at the node that reads it, then at its parent, and so on up to the root
            labels, is_root = forest.labels[above], forest.parents[above] < 0
            for counts, which in ((at_roots, is_root & (labels >= 0)), (anywhere, labels >= 0)):
                pairs = (labels * vocabulary_size + forest.tokens[own])[which]
                counts.view(-1).index_add_(0, pairs, torch.ones(len(pairs), dtype=torch.float64))
            own, above = own[~is_root], forest.parents[above[~is_root]]
        seen = (
            torch.bincount(labels[labels >= 0], minlength=classes).double()
            for labels in (forest.labels[forest.roots], forest.labels)
        )
        self.fits = [naive_bayes(counts, each) for counts, each in zip((at_roots, anywhere), seen, strict=True)]

    def _reads(self, forest: Forest) -> Tensor:
        return forest.tokens != (-1 if self.blank is None else self.blank)

    def forward(self, forest: Forest) -> Float[Tensor, "N C"]:
        found = []
        for logs, prior in self.fits:
            sums = logs.T[forest.tokens] * self._reads(forest)[:, None]
            for height in range(int(forest.heights.max())):
                nodes = (forest.heights == height).nonzero()[:, 0]
                nodes = nodes[forest.parents[nodes] >= 0]
                sums.index_add_(0, forest.parents[nodes], sums[nodes])
            found.append(sums + prior)
        at_roots, anywhere = found
        return torch.where((forest.parents < 0)[:, None], at_roots, anywhere)


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
