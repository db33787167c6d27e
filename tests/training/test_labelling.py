"""Scores of labels: against scikit-learn and by hand; the same for every batch size and order."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from recurra import Recurrent
from recurra.data.labelled_batches import LabelledSequences
from recurra.models.classify import Classifier
from recurra.models.labelling import Labeller
from recurra.models.tag import Tagger
from recurra.training.labelling import LabelScores, evaluate_labels, label_loss, most_frequent, nearest, predict_labels
from tests.helpers import make_labeller

LENGTHS = torch.tensor([4, 1, 7, 3, 3, 6])
VALUES = torch.randn(24, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
LABELS = {False: torch.tensor([0, 2, 1, 1, 0, 2]), True: torch.arange(24) % 3}


def make(per_step: bool) -> Labeller:
    torch.manual_seed(3)
    return make_labeller(Tagger if per_step else Classifier, 2, 3, "gru", 4, engine="eager").double()


def batches(per_step: bool, batch_size: int = 4, order: list[int] | None = None) -> LabelledSequences:
    order = order or list(range(6))
    cut = VALUES.split(LENGTHS.tolist())
    labels = LABELS[per_step].split(LENGTHS.tolist() if per_step else 1)
    return LabelledSequences(
        torch.cat([cut[k] for k in order]),
        LENGTHS[order],
        torch.cat([labels[k] for k in order]),
        batch_size,
        per_step=per_step,
    )


@pytest.mark.parametrize("per_step", [False, True])
@settings(max_examples=6)
@given(batch_size=st.integers(1, 7), order=st.permutations(range(6)))
def test_batch_size_and_order_do_not_matter(per_step: bool, batch_size: int, order: list[int]) -> None:
    model = make(per_step)
    one, other = (evaluate_labels(model, each) for each in (batches(per_step, 6), batches(per_step, batch_size, order)))
    assert torch.equal(one.counts, other.counts)
    assert one.nats == pytest.approx(other.nats, rel=1e-10)
    first = predict_labels(model, batches(per_step, 6))
    found = predict_labels(model, batches(per_step, batch_size, order))
    for k, place in enumerate(order):
        torch.testing.assert_close(found[k], first[place], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("per_step", [False, True])
@torch.no_grad()
def test_sequence_by_sequence(per_step: bool) -> None:
    model = make(per_step).eval()
    found = evaluate_labels(model, batches(per_step))
    logits = [model(x[None])[0] for x in VALUES.split(LENGTHS.tolist())]
    scores = torch.cat(logits) if per_step else torch.stack(logits)
    labels = LABELS[per_step]
    assert found.total == len(labels)
    assert found.accuracy == pytest.approx(float((scores.argmax(-1) == labels).double().mean()))
    assert found.nats == pytest.approx(float(cross_entropy(scores, labels)), rel=1e-10)
    loss = sum(float(label_loss(model, batch)) for batch in batches(per_step).one_pass())
    assert loss == pytest.approx(found.nats * found.total, rel=1e-10)


def test_the_model_is_left_in_its_mode() -> None:
    model = make(False).train()
    evaluate_labels(model, batches(False))
    assert model.training


@given(pairs=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_like_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    true, said = map(list, zip(*pairs, strict=True))
    counts = torch.zeros(4, 4, dtype=torch.int64)
    for i, j in pairs:
        counts[i, j] += 1
    found = LabelScores(counts, 0.0)
    assert found.accuracy == pytest.approx(metrics.accuracy_score(true, said))
    assert found.macro_f1 == pytest.approx(metrics.f1_score(true, said, average="macro", zero_division=0))


def test_most_frequent() -> None:
    found = most_frequent(torch.tensor([1, 3]), torch.tensor([[2, 1], [0, 1]]))
    assert found.counts.tolist() == [[0, 3], [0, 1]]
    assert found.accuracy == 0.25
    assert found.nats == pytest.approx(-(3 * math.log(0.25) + math.log(0.75)) / 4)


def test_a_network_of_an_ensemble_learns_nothing_from_its_own_fold() -> None:
    torch.manual_seed(0)
    layers = [Recurrent("gru", 2, 3, engine="eager") for _ in range(2)]
    model = Classifier(layers[0], 2, others=[Classifier(layers[1], 2)])
    values, lengths, targets = torch.randn(6, 2), torch.tensor([3, 3]), torch.tensor([0, 1])

    def gradients(folds: list[int]) -> list[torch.Tensor]:
        batches = LabelledSequences(values, lengths, targets, 2, folds=torch.tensor(folds))
        model.zero_grad()
        label_loss(model, next(iter(batches.one_pass()))).backward()
        return [one.W.grad.clone() for layer in layers for one in (layer.stack[0][0],)]

    assert [bool(each.any()) for each in gradients([0, 0])] == [False, True]
    assert not torch.equal(gradients([0, 1])[0], gradients([1, 0])[0])  # from one row each time, and not from the same
    plain = next(iter(LabelledSequences(values, lengths, targets, 2).one_pass()))
    losses = [cross_entropy(member(plain.inputs, lengths), plain.targets, reduction="sum") for member in model.members]
    torch.testing.assert_close(label_loss(model, plain), sum(losses) / 2)


def test_the_nearest_neighbour_looks_among_the_others() -> None:
    series = [torch.sin(torch.linspace(0, turns, T))[:, None] for turns, T in ((6, 30), (6, 40), (12, 30), (12, 35))]
    batches = LabelledSequences(
        torch.cat(series), torch.tensor([len(each) for each in series]), torch.tensor([0, 0, 1, 1]), 4
    )
    assert nearest(batches, batches, same=True).tolist() == [0, 0, 1, 1]
    batches.targets = torch.tensor([0, 1, 2, 3])
    assert nearest(batches, batches, same=True).tolist() == [1, 0, 3, 2]
