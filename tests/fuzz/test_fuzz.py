"""A minute of fuzzing with the tests: every format and every reader, settings, and Python objects.

`RECURRA_FUZZ_SECONDS` changes how long it takes, `RECURRA_FUZZ_SEED` where it starts; a failure names the line that repeats it.
"""

import os
import random
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays

from recurra.data.in_memory import TAKES, write_data
from recurra.errors import RecurraError
from tests.fuzz import folders, guided
from tests.fuzz.campaign import LIKELY, draw_case, run_case
from tests.fuzz.files import FILES
from tests.fuzz.targets import READS, outcome

SECONDS = float(os.environ.get("RECURRA_FUZZ_SECONDS", "60"))
SEED = int(os.environ.get("RECURRA_FUZZ_SEED", "0"))
PARTS = 4
SLOW = 30.0


@pytest.mark.parametrize("part", range(PARTS))
def test_files_and_settings(tmp_path: Path, part: int) -> None:
    until, number = time.monotonic() + 0.6 * SECONDS / PARTS, part
    while time.monotonic() < until:
        case, began = draw_case(SEED, number), time.monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                run_case(case, tmp_path)
            except Exception as error:
                error.add_note(f"python -m tests.fuzz.campaign --repeat '{case}'".replace("\t", r"\t"))
                raise
        assert time.monotonic() - began < SLOW, case
        number += PARTS
    assert number > 200 * min(1, SECONDS / 60)


def test_run_folders(tmp_path: Path) -> None:
    """Two kinds of run; the campaign has them all."""
    until, number = time.monotonic() + 0.15 * SECONDS, 0
    while time.monotonic() < until or number < 10:
        with warnings.catch_warnings(), outcome():
            warnings.simplefilter("ignore")
            try:
                folders.use(random.Random(f"{SEED}/{number}"), tmp_path, ("text", "classify"))
            except RecurraError:
                raise
            except Exception as error:
                error.add_note(f"folders.use(random.Random('{SEED}/{number}'), place, ('text', 'classify'))")
                raise
        number += 1


@pytest.mark.parametrize("name", FILES)
def test_sound_files_are_sound(tmp_path: Path, name: str) -> None:
    """Otherwise every mutation of them would be refused for the same reason, and nothing would be tested."""
    read = [READS[target] for target in LIKELY[name]]
    for seed in range(40):
        (tmp_path / name).write_bytes(FILES[name](random.Random(seed)))
        for each in read:
            try:
                each(tmp_path / name)
            except RecurraError:
                continue
            return
    raise AssertionError(f"no {name} was read")


NUMBERS = some.one_of(some.integers(), some.floats(), some.booleans(), some.none(), some.text(max_size=5))
OBJECTS = some.recursive(
    some.one_of(NUMBERS, some.binary(max_size=4), some.dates(), some.just(object()), some.just(np.float32(3))),
    lambda inner: some.one_of(
        some.lists(inner, max_size=4),
        some.tuples(inner, inner),
        some.dictionaries(some.one_of(some.text(max_size=4), some.integers()), inner, max_size=3),
        some.sets(some.integers(), max_size=2),
    ),
    max_leaves=12,
)
ARRAYS = arrays.arrays(
    some.one_of(arrays.scalar_dtypes(), arrays.unicode_string_dtypes(), arrays.complex_number_dtypes()),
    arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3),
)


@pytest.mark.parametrize("kind", TAKES)
@settings(max_examples=25, deadline=None)
@given(data=some.one_of(OBJECTS, ARRAYS, some.tuples(ARRAYS, OBJECTS)))
def test_objects(tmp_path_factory: pytest.TempPathFactory, kind: str, data: Any) -> None:
    """Whatever is given as data is written, or refused in one line."""
    with outcome():
        write_data(kind, data, tmp_path_factory.mktemp("data"))


def test_tensors_of_every_type(tmp_path: Path) -> None:
    kinds = [
        torch.float16,
        torch.bfloat16,
        torch.float64,
        torch.int8,
        torch.uint8,
        torch.bool,
        torch.complex64,
        torch.int64,
    ]
    for kind in kinds:
        for shape in ((), (0,), (3,), (2, 3), (2, 3, 4), (1, 2, 3, 4, 5)):
            for what in TAKES:
                with outcome():
                    write_data(what, torch.zeros(shape, dtype=kind), tmp_path)


def test_inputs_of_the_guided_search(tmp_path: Path) -> None:
    """Each reader has sound seeds; half of what comes of one is a damaged file of its format, the rest is left to atheris."""
    read, others = set[str](), 0
    for k, seed in enumerate(guided.seeds()):
        _, target = guided.way(seed)
        if target in READS and target not in read and guided.give(seed, tmp_path) == "data":
            read.add(target)
        if k % 16 == 0:
            changed = guided.change(seed, 20_000, k, lambda data, most: b"others"[:most])
            others += changed == b"others"
            assert changed == b"others" or guided.way(changed) == guided.way(seed)
    assert read == set(READS)
    assert others > 10


def test_draws_follow_the_bytes() -> None:
    assert guided.Fed(b"\x80\0").random() == 0.5
    assert guided.Fed(b"").choice("abc") == "a"
    assert guided.Fed(b"\xa0").getrandbits(3) == 5
    assert len({guided.Fed(bytes([k])).randrange(200) for k in range(200)}) == 200


def test_without_atheris_there_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "atheris", None)
    monkeypatch.setattr(sys, "argv", ["guided"])
    guided.main()
    assert capsys.readouterr().out.startswith("skipped: ")
