"""Messages: one line, printable, cut where they are long."""

import pytest

from recurra.errors import ENDING, LONGEST, one_line


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("a  b", "a  b"),
        (" two\n   lines \r\n", "two lines"),
        ("\x1b[2J\u202e\ud800\t\0", r"\x1b[2J\u202e\ud800\t\x00"),
        ("é ∂ 漢", "é ∂ 漢"),
    ],
)
def test_one_line(message: str, line: str) -> None:
    assert one_line(message) == line


def test_of_a_long_one_the_end_stays_since_it_says_what_to_do() -> None:
    found = one_line("x" * 5000 + "\n" + "y" * ENDING)
    assert len(found) == LONGEST
    assert found.startswith("xxx")
    assert found.endswith(f"… {'y' * ENDING}")
    assert len(one_line("z" * 5000, 1000)) == 1000
