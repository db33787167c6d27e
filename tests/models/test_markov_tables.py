"""A Markov model inside a network's weights gives the same probabilities."""

import torch

from recurra.models import Markov, MarkovTables


def test_it_predicts_what_the_markov_model_does() -> None:
    torch.manual_seed(0)
    lines = [torch.randint(4, (n,)) for n in (2, 5, 9, 14, 30)]
    counted = Markov.fit(lines, 3, 6)
    tables = MarkovTables(counted.sizes, 6).double().fill(counted)
    tokens = torch.tensor([[0, 1, 5, 2, 2, 3], [3, 3, 0, 1, 2, 0]])  # a token that was never seen among them
    found = tables(tokens).exp()
    for row in range(2):
        for t in range(6):
            torch.testing.assert_close(found[row, t], counted.probabilities(tokens[row, : t + 1]))


def test_a_walk_gives_the_same_bits() -> None:
    torch.manual_seed(0)
    counted = Markov.fit(torch.randint(4, (200,)), 4, 5)
    tables = MarkovTables(counted.sizes, 5).fill(counted)
    tokens, walk = torch.randint(5, (1, 60)), tables.to_markov().walk()
    walk.read(*tables.initial(1)[0].tolist())
    for token, expected in zip(tokens[0].tolist(), tables(tokens)[0], strict=True):
        walk.read(token)
        assert torch.equal(walk.probabilities().log(), expected)


def test_a_copy_of_the_same_sizes_takes_over_the_weights() -> None:
    counted = Markov.fit([torch.tensor([0, 1, 0, 1, 1])], 1, 2)
    made = MarkovTables(counted.sizes, 2).fill(counted)
    other = MarkovTables(counted.sizes, 2)
    other.load_state_dict(made.state_dict())
    tokens = torch.tensor([[0, 1, 1]])
    assert torch.equal(made(tokens), other(tokens))
