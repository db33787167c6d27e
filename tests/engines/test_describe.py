"""The description of a cell: what its graph knows and what engines answer."""

import pytest

from recurra import CATALOGUE
from recurra.engines.describe import describe_cell


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_cell_is_described(name: str) -> None:
    found = describe_cell(CATALOGUE[name])
    assert found.summary
    assert "eager" in found.runs_on
    assert all(line in str(found) for line in found.equations)
    assert found.to_json()["engines"] == found.engines
