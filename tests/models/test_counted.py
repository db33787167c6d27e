"""A network mixed with counts: its definition, whole, in chunks, padded, step by step and sampled."""

import pytest
import torch

from recurra.layers.recurrent import Recurrent
from recurra.models import Choice, CountedLanguageModel, LanguageModel, Markov, MarkovTables, sample
from recurra.models.counted import predictor

V, ORDER, SHARE = 6, 3, 0.3


@pytest.fixture
def counted() -> Markov:
    torch.manual_seed(0)
    return Markov.fit([torch.randint(5, (n,)) for n in (30, 41, 7)], ORDER, V)


@pytest.fixture
def model(counted: Markov) -> CountedLanguageModel:
    tables = MarkovTables(counted.sizes, V).double().fill(counted)
    network = LanguageModel(V, Recurrent("gru", 4, 5), baseline=tables).double().eval()
    network.share.fill_(SHARE)
    found = predictor(network)
    assert isinstance(found, CountedLanguageModel)
    return found


@torch.no_grad()
def test_it_is_the_mixture(model: CountedLanguageModel, counted: Markov) -> None:
    tokens = torch.randint(V, (2, 9))
    found = model(tokens)[0].exp()
    alone = model.network(tokens)[0].softmax(-1)
    for row in range(2):
        for t in range(9):
            expected = (1 - SHARE) * alone[row, t] + SHARE * counted.probabilities(tokens[row, : t + 1])
            torch.testing.assert_close(found[row, t], expected)


@torch.no_grad()
def test_chunks_steps_and_lengths_change_nothing(model: CountedLanguageModel) -> None:
    tokens, lengths = torch.randint(V, (3, 11)), torch.tensor([11, 2, 0])
    whole, _ = model(tokens)
    parts, state = [], model.initial_state(3)
    for part in tokens.split([1, 2, 5, 3], dim=1):
        predicted, state = model(part, state)
        parts.append(predicted)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)
    state = None
    for t in range(11):
        predicted, state = model.step(tokens[:, t], state)
        torch.testing.assert_close(predicted, whole[:, t])
    _, state = model(tokens, None, lengths)
    for row, n in enumerate(lengths.tolist()[1:], 1):
        kept = tuple((tuple(each[row, None] for each in layer[0]),) for layer in state)
        torch.testing.assert_close(model(tokens[row, None, n:], kept)[0][0], whole[row, n:])


def test_without_a_share_the_network_predicts(model: CountedLanguageModel) -> None:
    model.network.share.fill_(0)
    assert predictor(model.network) is model.network


def test_what_is_sampled_follows_the_mixture(model: CountedLanguageModel) -> None:
    """Layer by layer, or through a stream of its own where the layers run on kernels: the same tokens."""
    how = {"choice": Choice(temperature=0.7)}
    fast = list(sample(model, [0, 1], 40, generator=torch.Generator().manual_seed(3), **how))
    model.network.recurrent.engine = "eager"
    assert list(sample(model, [0, 1], 40, generator=torch.Generator().manual_seed(3), **how)) == fast
    model.network.share.fill_(0)
    alone = list(sample(model.network, [0, 1], 40, generator=torch.Generator().manual_seed(3), **how))
    assert alone != fast
