"""A stored cell is the same cell, and no file makes the reader run code or raise anything but `CellError`."""

import copy
import json
from contextlib import suppress

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import recurra as rc
from recurra.cells.stored import fingerprint, restore_cell, store_cell
from tests.helpers import CELLS


@rc.cell(bias={"f": 1.0}, constrain={"h": "orthogonal"})
def odd(x, U, h, slow, *, keep=rc.Learned([0.2, 0.8], low=0, high=1), pace=rc.Fixed(rc.Ramp(0.1, 0.9))):
    """Everything that the notation has."""
    f = rc.sigmoid(rc.norm(x.f + U.h(h), "f"))
    g = alias = rc.where((h > 0.5) & ~(slow < -1), rc.clamp(f, -2.0, 1e9), rc.ago(h, 3))
    slow = keep * slow + pace * g * alias
    return rc.minimum(slow, 3.0) % 2, slow


@pytest.mark.parametrize("cell", [*CELLS.values(), odd], ids=lambda cell: cell.name)
def test_stored_cell_is_the_same_cell(cell):
    stored = json.loads(json.dumps(store_cell(cell)))
    again = restore_cell(stored)
    assert store_cell(again) == stored
    assert again.graph.nodes == cell.graph.nodes  # nodes are shared: the same description is the same object
    assert again.graph.stages[0][0].names == cell.graph.stages[0][0].names if cell.graph.stages else True
    assert fingerprint(again) == fingerprint(cell)
    outputs = []
    for each in (cell, again):
        torch.manual_seed(0)
        layer = rc.Recurrent(each, 3, 8, engine="eager").eval()
        outputs.append(layer(torch.randn(2, 7, 3)).outputs)
    assert torch.equal(*outputs)


def test_fingerprint_tells_orders_of_lines_apart():
    @rc.cell
    def one(x, U, h):
        z = rc.sigmoid(x.z + U.z(h))
        return z * rc.tanh(x.n + U.n(h))

    @rc.cell
    def other(x, U, h):
        n = rc.tanh(x.n + U.n(h))
        return rc.sigmoid(x.z + U.z(h)) * n

    assert fingerprint(one) != fingerprint(other)


def test_unused_norm_is_refused():
    @rc.cell
    def wasteful(x, U, h):
        rc.norm(U.h(h), "lost")
        return rc.tanh(x.h)

    with pytest.raises(rc.CellError, match="gain_lost is computed and never used"):
        store_cell(wasteful)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("format",), "recurra.cell/9", "its format is 'recurra.cell/9'"),
        (("name",), "gru\n#include <x>", "odd ones"),
        (("states",), ["h; system()"], "not an identifier"),
        (("states",), [], "no state"),
        (("drives",), ["r", "z", "n"], "drives do not belong"),
        (("nodes", 0, "kind"), "import", "kind 'import'"),
        (("nodes", 0, "name"), "__class__", "not an identifier"),
        (("nodes", 2, "of"), [400], "node '400' is asked for"),
        (("updates",), [10**30], "is asked for"),
        (("gates",), {"z\\": 3}, "not an identifier"),
        (("parameters",), {"a": {"learned": True, "value": 10**400}}, "not a number"),
        (("noises",), {"m": {"chance": 1, "scale": 1, "per": "day"}}, "neither of a step"),
        (("nodes",), [{"kind": "constant", "value": 1.0}] * 5000, "at most 4096"),
    ],
)
def test_damage_is_told(path, value, told):
    stored = store_cell(rc.find_cell("gru"))
    place = stored
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(rc.CellError, match="the stored cell cannot be used") as caught:
        restore_cell(stored)
    assert told in str(caught.value)
    assert len(str(caught.value)) <= 300


def test_nesting_is_bounded():
    stored = store_cell(rc.find_cell("elman"))
    last = len(stored["nodes"]) - 1
    for k in range(500):  # each doubles the text of the equation, if it were written out
        stored["nodes"].append({"kind": "multiply", "of": [last, last]})
        last += 1
        if k == 40:
            text = str(restore_cell(copy.deepcopy(stored) | {"updates": [last]}).graph)
            assert len(text) < 2000
    stored["updates"] = [last]
    with pytest.raises(rc.CellError, match="nested too deep"):
        restore_cell(stored)


_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["h", "z", "tanh"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_damage_raises_anything_else(data):
    stored = copy.deepcopy(store_cell(data.draw(st.sampled_from([odd, rc.find_cell("lstm"), rc.zoneout(odd, 0.1)]))))
    place, key = stored, data.draw(st.sampled_from(list(stored)))
    while isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
        place = place[key]
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
    place[key] = data.draw(_JUNK)
    with suppress(rc.CellError):  # anything else fails the test
        assert store_cell(restore_cell(stored))["states"] == stored["states"]
