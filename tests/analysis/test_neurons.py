"""Units that follow a label are found, those that do not are not, and both controls say so."""

import pytest
import torch

from recurra import Recurrent
from recurra.analysis.neurons import Activity, Finding, Unit, read_unit, record_activity, search
from recurra.errors import OptionError, ShapeError


def slow_label(size: int, seed: int) -> torch.Tensor:
    """A yes or no that changes seldom."""
    random = torch.Generator().manual_seed(seed)
    return ((torch.rand(size, generator=random) < 0.02).cumsum(0) % 2).float()


def noise(size: int, units: int, seed: int) -> torch.Tensor:
    """Units that change slowly and know nothing."""
    steps = torch.randn(size, units, generator=torch.Generator().manual_seed(seed))
    return torch.stack([steps[max(0, t - 50) : t + 1].mean(0) for t in range(size)])


def activity(values: torch.Tensor) -> Activity:
    return Activity([Unit(0, False, "h", k) for k in range(values.shape[1])], values)


def planted(size: int, seed: int, *, follows: bool) -> tuple[Activity, torch.Tensor]:
    label, values = slow_label(size, seed), noise(size, 30, seed + 100)
    if follows:
        values[:, 7] = 0.5 - label + 0.2 * torch.randn(size, generator=torch.Generator().manual_seed(seed + 200))
    return activity(values), label


def test_a_planted_unit_is_found_with_its_sign() -> None:
    (first, labels), (second, true) = planted(3000, 0, follows=True), planted(3000, 1, follows=True)
    found = search(first, {"on": labels}, second, {"on": true})["on"]
    best = found.hits[0]
    assert (best.unit.index, best.sign) == (7, -1)
    assert best.score > 0.9
    assert best.auc is not None and best.auc > 0.99  # noqa: PT018
    assert found.by_chance < 0.5
    assert found.probe.score >= best.score - 0.02


def test_noise_is_not_called_a_finding() -> None:
    parts = [planted(2000, seed, follows=False) for seed in range(4)]
    (first, labels), (second, true), (third, _), (fourth, _) = parts
    trained = search(first, {"on": labels}, second, {"on": true})["on"]
    before = search(third, {"on": labels}, fourth, {"on": true})["on"]
    assert not Finding("on", trained, before).is_found
    assert "no single unit" in str(Finding("on", trained, before))


def test_a_unit_that_an_untrained_network_has_too_is_no_finding() -> None:
    (first, labels), (second, true) = planted(2000, 0, follows=True), planted(2000, 1, follows=True)
    same = search(first, {"on": labels}, second, {"on": true})["on"]
    assert same.hits[0].score > 0.9
    assert not Finding("on", same, same).is_found


def test_a_label_of_two_units_needs_a_probe() -> None:
    def part(seed: int) -> tuple[Activity, torch.Tensor]:
        values = torch.randn(4000, 20, generator=torch.Generator().manual_seed(seed))
        return activity(values), values[:, 3] - values[:, 11]

    (first, labels), (second, true) = part(0), part(1)
    found = search(first, {"difference": labels}, second, {"difference": true}, probe_size=2)["difference"]
    assert {unit.index for unit in found.probe.units} == {3, 11}
    assert found.probe.score > 0.999
    assert found.hits[0].score < 0.8
    assert found.hits[0].auc is None


def test_units_that_never_change_and_labels_that_do_not() -> None:
    (first, labels), (second, true) = planted(500, 0, follows=True), planted(500, 1, follows=True)
    first.values[:, 0] = second.values[:, 0] = 1.0
    assert search(first, {"on": labels}, second, {"on": true})["on"].hits[0].unit.index == 7
    with pytest.raises(ShapeError, match="same everywhere"):
        search(first, {"on": torch.ones(500)}, second, {"on": true})
    with pytest.raises(ShapeError, match="500 positions"):
        search(first, {"on": labels[:-1]}, second, {"on": true})


def test_the_record_of_all_units_in_order() -> None:
    layer = Recurrent("lstm", 3, 2, layers=2, bidirectional=True)
    x, lengths = torch.randn(2, 5, 3), torch.tensor([5, 3])
    found = record_activity(layer, x, lengths)
    trace = layer(x, lengths=lengths, record=True)
    assert trace.record is not None
    assert found.values.shape == (8, 2 * 2 * 6 * 2)
    wanted = torch.cat([trace.record[1][1]["f"][0], trace.record[1][1]["f"][1, :3]])[:, 1]
    assert torch.equal(found.of(Unit(1, True, "f", 1)), wanted.detach())
    assert record_activity(layer, x, gates=False).values.shape == (10, 2 * 2 * 2 * 2)


def test_units_by_name() -> None:
    layer = Recurrent("lstm", 3, 4)
    assert str(read_unit("0.c.3", layer)) == "0.c.3"
    for wrong in ("0.c.4", "1.c.0", "0.q.0", "c3", "0r.c.0", ""):
        with pytest.raises(OptionError, match=r"LAYER\.NAME\.INDEX"):
            read_unit(wrong, layer)
