"""Colours by level, underlines where a label holds, and text that stays text."""

import torch

from recurra.plots.units import LEVELS, SHADES, colour_text


def test_levels_from_low_to_high() -> None:
    made = colour_text(list("abc"), torch.tensor([-1.0, 0.0, 1.0]))
    assert made.levels == [-LEVELS, 0, LEVELS]
    assert colour_text(list("abc"), torch.tensor([-1.0, 0.0, 1.0]), low=1, high=-1).levels == [LEVELS, 0, -LEVELS]
    assert colour_text(list("ab"), torch.tensor([5.0, -5.0]), low=-1, high=1).levels == [LEVELS, -LEVELS]
    assert colour_text(list("ab"), torch.tensor([0.5, 0.5])).levels == [0, 0]


def test_html() -> None:
    made = colour_text(
        ["<", "a", "\n", "b"], torch.tensor([1.0, 1.0, -1.0, 0.0]), torch.tensor([True, True, False, False])
    )
    assert made.to_html() == '<span class="p8"><u>&lt;a</u></span><span class="n8"> \n</span>b'
    assert SHADES.count("{") == 2 * LEVELS


def test_on_a_terminal() -> None:
    made = colour_text(["a", "b"], torch.tensor([1.0, -1.0]), torch.tensor([True, False])).to_terminal()
    assert made.plain == "ab"
    assert [str(span.style).split()[0] for span in made.spans] == ["bold", "black"]
