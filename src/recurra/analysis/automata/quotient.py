"""The quotient of a network's visited states: two are one if no string tells them apart by the prediction after it.

States begin as one block for each predicted class. Where a symbol leads from one block to several, the string that
tells those apart, with the symbol before it, is tried in every state of the block, and splits it. The largest disagreement
is mended first, so that what the machine is comes early and what are the network's own slips comes late.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from recurra.analysis.automata.finite import Moore
from recurra.analysis.automata.reading import Reading
from recurra.types import Int

Test = tuple[tuple[int, ...], int]
"""Is this class predicted after this string?"""


def quotients(reading: Reading, strings: Int[Tensor, "N T"], most: int = 64) -> Iterator[Moore]:
    """Machines of more and more states, each with the transitions that most of the strings take between the blocks.

    - `strings`: what the network reads; only symbols that follow a state somewhere in them are known there.
    - `most`: how many blocks there may be.
    """
    states, predictions = reading.visit(strings), reading.predictions(strings)
    known = [k for k in range(len(reading.classes)) if bool((predictions == k).any())]
    # of each block the tests that were made, and how they ended
    blocks: list[dict[Test, bool]] = [{((), d): d == k for d in known} for k in known]
    outputs = list(known)
    block = torch.full_like(predictions, -1)
    for number, k in enumerate(known):
        block[predictions == k] = number
    if not reading.predicts_first:
        block[:, 0] = len(blocks)
        blocks.append({})
        outputs.append(-1)
    while True:
        counts = _count(block, strings, len(blocks), len(reading.symbols))
        yield _machine(reading, counts, outputs, int(block[0, 0]))
        found = _disagreement(counts)
        if found is None or len(blocks) >= most:
            return
        mixed, symbol, first, second = found
        string, expected = _apart(blocks[first], blocks[second])
        test = ((symbol, *string), expected)
        inside = block == mixed
        answers = reading.after(states[inside], test[0]) == expected
        block[inside] = torch.where(answers, len(blocks), mixed)
        blocks.append(blocks[mixed] | {test: True})
        blocks[mixed] = blocks[mixed] | {test: False}
        outputs.append(outputs[mixed])


def _count(block: Int[Tensor, "N T1"], strings: Int[Tensor, "N T"], blocks: int, symbols: int) -> Int[Tensor, "B K B"]:
    """How often a symbol leads from each block to each."""
    places = (block[:, :-1] * symbols + strings) * blocks + block[:, 1:]
    return torch.bincount(places[strings >= 0], minlength=blocks * symbols * blocks).view(blocks, symbols, blocks)


def _machine(reading: Reading, counts: Int[Tensor, "B K B"], outputs: list[int], start: int) -> Moore:
    """The transition that is taken most often; −1 where none is."""
    after = torch.where(counts.sum(-1) > 0, counts.argmax(-1), -1)
    order = [start, *(k for k in range(len(outputs)) if k != start)]
    place = torch.tensor([*(order.index(k) for k in range(len(order))), -1])
    return reading.make_machine(place[after[order]].tolist(), [outputs[k] for k in order])


def _apart(one: dict[Test, bool], other: dict[Test, bool]) -> Test:
    """The test that two blocks answer differently: they were one until it was made."""
    return next(test for test in one if test in other and one[test] != other[test])


def _disagreement(counts: Int[Tensor, "B K B"]) -> tuple[int, int, int, int] | None:
    """The block and the symbol with most transitions against the majority, and the two blocks that most of them lead to."""
    top = counts.topk(min(2, counts.shape[-1]), dim=-1)
    against = counts.sum(-1) - top.values[..., 0]
    if int(against.max()) == 0:
        return None
    mixed, symbol = divmod(int(against.argmax()), counts.shape[1])
    first, second = top.indices[mixed, symbol].tolist()
    return mixed, symbol, first, second
