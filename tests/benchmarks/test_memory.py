"""Success over length: a score of 1 where a task is solved, 0 where nothing is remembered."""

import pytest

from recurra.benchmarks.memory import compare_memory
from recurra.errors import OptionError


def test_a_short_task_is_solved_and_an_untrained_network_knows_nothing() -> None:
    solved = compare_memory("parity", ["gru"], [4], steps=250, hidden_size=16, seeds=1)
    assert solved.rows[0].scores[0] > 0.9
    assert solved.rows[0].success == 1
    assert "1/1" in str(solved)
    begun = compare_memory("adding", ["elman", "gru"], [20], steps=1, hidden_size=4)
    assert [row.cell for row in begun.rows] == ["elman", "gru"]
    assert all(row.scores[0] < 0.3 and row.success == 0 for row in begun.rows)
    with pytest.raises(OptionError, match="Did you mean 'adding'"):
        compare_memory("addin")
