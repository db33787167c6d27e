"""The neural cache: against its formula step by step, over the borders of batches, and chosen on data."""

import math

import pytest
import torch
from torch import Tensor

from recurra.data.batches import Chunks
from recurra.models.language import LanguageModel
from recurra.training.evaluation import log_probabilities
from recurra.training.neural_cache import Cache, cache_logs, choose_cache, with_cache
from tests.helpers import make_language_model

V, H = 9, 6


@pytest.fixture
def model() -> LanguageModel:
    torch.manual_seed(1)
    return make_language_model(V, "gru", H, engine="eager").double().eval()


def batches(ids: Tensor, streams: int = 1, length: int = 7) -> tuple[Chunks, Chunks]:
    """Of a text, and of the numbers of its tokens."""
    one, two = (Chunks(each, streams, length, shuffle=False) for each in (ids, torch.arange(len(ids))))
    return one, two


def by_hand(model: LanguageModel, ids: Tensor, size: int, flatness: float) -> list[float]:
    """P of each token by the cache alone; NaN of an empty one."""
    h = torch.nn.functional.normalize(model.hidden(ids[None, :-1])[0][0].detach(), dim=-1)
    found = []
    for t in range(len(h)):
        past = range(max(0, t - size), t)
        weights = [math.exp(flatness * float(h[t] @ h[i])) for i in past]
        hits = sum(weight for weight, i in zip(weights, past, strict=True) if ids[i + 1] == ids[t + 1])
        found.append(hits / sum(weights) if weights else math.nan)
    return found


@pytest.mark.parametrize(("size", "flatness"), [(3, 2.0), (10, 8.0), (100, 0.5)])
def test_the_formula(model: LanguageModel, size: int, flatness: float) -> None:
    ids = torch.randint(V, (40,))
    (found,) = cache_logs(model, *batches(ids), [(size, flatness)])
    torch.testing.assert_close(
        found.exp(), torch.tensor(by_hand(model, ids, size, flatness)).double(), rtol=1e-5, atol=1e-7, equal_nan=True
    )


def test_each_stream_has_its_own_memory(model: LanguageModel) -> None:
    ids = torch.randint(V, (42,))  # 41 targets in 2 streams: 20 and 21, of which the last batch is ragged
    found = cache_logs(model, *batches(ids, 2), [(5, 4.0), (50, 1.0)])
    for logs, (size, flatness) in zip(found, [(5, 4.0), (50, 1.0)], strict=True):
        expected = torch.tensor([p for part in (ids[:21], ids[20:]) for p in by_hand(model, part, size, flatness)])
        torch.testing.assert_close(logs.exp(), expected.double(), rtol=1e-5, atol=1e-7, equal_nan=True)


def test_network_and_cache_together_are_a_distribution(model: LanguageModel) -> None:
    """Whatever comes after a text, the probabilities of all tokens add up to one."""
    ids, cache, total = torch.randint(V, (30,)), Cache(10, 4.0, 0.3), 0.0
    for last in range(V):
        text = torch.cat([ids, torch.tensor([last])])
        logs = log_probabilities(model, *batches(text))
        total += float(with_cache(model, *batches(text), logs, cache)[-1].exp())
    assert total == pytest.approx(1)


def test_a_text_that_repeats_itself_prefers_a_cache(model: LanguageModel) -> None:
    ids = torch.randint(V, (12,)).repeat(30)
    logs = log_probabilities(model, *batches(ids))
    chosen = choose_cache(model, *batches(ids), logs)
    assert chosen.share > 0.5
    assert with_cache(model, *batches(ids), logs, chosen).mean() > logs.mean() + 1
    random = torch.randint(V, (360,), generator=torch.Generator().manual_seed(3))
    logs = log_probabilities(model, *batches(random))
    assert choose_cache(model, *batches(random), logs).share < 0.4
