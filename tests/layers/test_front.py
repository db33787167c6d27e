"""The convolution before recurrent layers, against its definition; what lies past a sequence's end changes nothing."""

import pytest
import torch

from recurra.errors import OptionError
from recurra.layers.front import Front

LENGTHS = torch.tensor([7, 4, 1, 0])


def test_by_its_definition() -> None:
    front = Front(2, 3, width=3, pool=2).double()
    x = torch.randn(7, 1, 2, dtype=torch.float64)
    y, lengths = front(x, torch.tensor([7]))
    K, b = front.kernel.weight, front.kernel.bias
    padded = torch.cat([torch.zeros(1, 2), x[:, 0], torch.zeros(1, 2)])
    steps = torch.stack([sum(K[:, :, k] @ padded[t + k] for k in range(3)) + b for t in range(7)]).relu()
    wanted = torch.stack([steps[0:2].amax(0), steps[2:4].amax(0), steps[4:6].amax(0), steps[6]])
    torch.testing.assert_close(y[:, 0], wanted)
    assert lengths.tolist() == [4]


@pytest.mark.parametrize("pool", [1, 2, 3])
def test_alone_and_beside_longer_ones(pool: int) -> None:
    front = Front(2, 3, width=5, pool=pool).double()
    x = torch.randn(7, 4, 2, dtype=torch.float64)
    y, lengths = front(x, LENGTHS)
    assert lengths.tolist() == [-(-n // pool) for n in LENGTHS.tolist()]
    for k, n in enumerate(LENGTHS.tolist()[:3]):
        alone, _ = front(x[:n, k : k + 1], LENGTHS[k : k + 1])
        torch.testing.assert_close(y[: lengths[k], k], alone[:, 0], rtol=1e-12, atol=1e-12)
    x[torch.arange(7)[:, None] >= LENGTHS] = torch.nan
    assert torch.equal(front(x, LENGTHS)[0], y)


def test_refused() -> None:
    with pytest.raises(OptionError, match="odd"):
        Front(2, 3, width=4)
    with pytest.raises(OptionError, match="pool"):
        Front(2, 3, width=3, pool=0)
