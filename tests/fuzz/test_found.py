"""What fuzzing and users found in readers, each by a small generator: now one short line, quickly, in little memory."""

import codecs
import gzip
import io
import json
import os
import resource
import struct
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recurra as rc
from recurra.cli.main import run
from recurra.data.arrays import read_npy
from recurra.data.events import read_log
from recurra.data.guard import READERS, read_bytes
from recurra.data.images import read_array, read_images
from recurra.data.labelled import How, read_labelled
from recurra.data.limits import VARIABLE, limits
from recurra.data.matlab import read_cells
from recurra.data.number_table import read_table
from recurra.data.pairs import read_pairs
from recurra.data.rolls import read_rolls
from recurra.data.series import read_series, read_timed_series
from recurra.data.text import read_documents
from recurra.data.tokenizers import build_tokenizer
from recurra.data.trees import read_trees
from recurra.errors import LONGEST, DataError, OptionError, RecurraError
from tests.fuzz.folders import sign, sound
from tests.fuzz.targets import READS

SECONDS, MEMORY = 20.0, 2 * 2**30


@pytest.fixture(autouse=True)
def quick() -> Any:
    """No input takes long, or more memory than is allowed."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert time.monotonic() - began < SECONDS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MEMORY


def refusal(read: Callable[[Path], Any], file: Path, data: bytes | str | None = None) -> str:
    """The message that a file is refused with: one short printable line that names the file."""
    if data is not None:
        file.write_bytes(data.encode() if isinstance(data, str) else data)
    with pytest.raises(RecurraError) as caught:
        read(file)
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) <= LONGEST
    assert file.name[-20:] in message
    return message


def test_every_reader_has_a_fuzzer() -> None:
    """A reader that comes through the door is a target of the fuzzer under one of its names."""
    called = {
        "read_documents": "text",
        "read_labelled": "labelled",
        "read_series": "series",
        "read_timed_series": "timed series",
        "read_log": "log",
        "read_pairs": "pairs",
        "read_trees": "trees, every",
        "read_rolls": "rolls",
        "read_cells": "cells of MATLAB",
        "read_table": "table",
        "read_measured": "measured",
        "read_images": "images",
        "read_array": "images",
        "read_classes": "classes",
        "read_column": "labels of units",
        "read_vectors": "vectors of words",
    }
    assert set(READERS) == set(called)
    assert set(called.values()) <= set(READS)


# -- event logs ----------------------------------------------------------------------------------------------------------

EVENT = '<trace><string key="concept:name" value="1"/><event><string key="concept:name" value="a"/>{}</event></trace>'


def xes(inside: str, declared: str = "utf-8") -> str:
    return f'<?xml version="1.0" encoding="{declared}"?><log>{inside}</log>'


@pytest.mark.parametrize("encoding", ["shift_jis", "gbk", "utf-7", "utf-32", "idna", "nonsense", "hex", "undefined"])
def test_encodings_that_expat_does_not_know(tmp_path: Path, encoding: str) -> None:
    message = refusal(read_log, tmp_path / "a.xes", xes(EVENT.format(""), encoding))
    assert "Convert it to UTF-8" in message or "not readable as XES" in message


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "shift_jis"])
def test_files_that_are_in_another_encoding(tmp_path: Path, encoding: str) -> None:
    data = codecs.encode(xes(EVENT.format(""), encoding), encoding)
    if encoding == "utf-16":  # which expat knows
        (tmp_path / "a.xes").write_bytes(data)
        assert read_log(tmp_path / "a.xes").cases[0].activities == ["a"]
    else:
        refusal(read_log, tmp_path / "a.xes", data)


def test_entities_are_refused(tmp_path: Path) -> None:
    """A billion laughs: each entity is ten of the one before."""
    kinds = "".join(f'<!ENTITY a{k + 1} "{f"&a{k};" * 10}">' for k in range(12))
    text = f'<?xml version="1.0"?><!DOCTYPE log [<!ENTITY a0 "ha">{kinds}]><log>&a12;</log>'
    assert "DOCTYPE" in refusal(read_log, tmp_path / "a.xes", text)
    outside = '<?xml version="1.0"?><!DOCTYPE log SYSTEM "file:///etc/passwd"><log/>'
    assert "DOCTYPE" in refusal(read_log, tmp_path / "a.xes", outside)


def test_elements_take_no_memory_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a.xes.gz").write_bytes(gzip.compress(xes(EVENT.format("") + "<a/>" * 2_000_000).encode(), 1))
    assert len(read_log(tmp_path / "a.xes.gz").cases) == 1
    assert "nesting" in refusal(read_log, tmp_path / "a.xes", xes("<a>" * 20_000))


@pytest.mark.parametrize(
    "moment",
    [
        *(
            "0001-01-01T00:00:00+14:00",
            "9999-12-31T23:59:59-14:00",
            "-62135596801",
            "253402300800",
            "-99999999999",
            "1e300",
        ),
        *("0000-01-01", "10000-01-01", "nan", "inf", "", "9" * 400, "x" * 5000, "\x1b[31m"),
    ],
)
def test_times_out_of_range(tmp_path: Path, moment: str) -> None:
    assert "is no time that can be read" in refusal(read_log, tmp_path / "a.csv", f"case,activity,time\n1,a,{moment}\n")
    refusal(read_timed_series, tmp_path / "b.csv", f"date,x\n2024-01-01,1\n{moment},2\n2024-01-03,3\n")


def test_numbers_mixed_with_dates(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("case,activity,time\n1,a,0\n1,b,2024-01-01\n1,c,-62135596800\n")
    assert read_log(tmp_path / "a.csv").cases[0].activities == ["c", "a", "b"]
    refusal(read_timed_series, tmp_path / "b.csv", "date,x\n-62135596800,1\n2024-01-01,2\n5,3\n")


def test_a_clock_that_leaves_the_calendar(tmp_path: Path) -> None:
    for rows in ("9999-10-01,1\n9999-11-01,2\n9999-12-01,3", "9999-12-29,1\n9999-12-30,2\n9999-12-31,3"):
        (tmp_path / "a.csv").write_text(f"date,x\n{rows}\n")
        clock = read_timed_series(tmp_path / "a.csv").clock
        assert clock is not None
        with pytest.raises(DataError, match="beyond the year 9999"):
            clock.after(2)


# -- numbers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", ["1e300", "-1e308", "1e151", "inf", "nan", "9" * 400, "9" * 5000])
def test_numbers_whose_squares_are_not_finite(tmp_path: Path, cell: str) -> None:
    table = f"width,species\n1,cat\n{cell},dog\n3,cat\n2,dog\n"
    wide = f"a,b,label\n1,2,x\n1,{cell},y\n"
    assert "line 3" in refusal(read_table, tmp_path / "a.csv", table)
    assert "row 3, x" in refusal(read_series, tmp_path / "a.csv", f"x\n1\n{cell}\n2\n")
    if cell != "nan":  # which is a missing value there
        assert "row 3, x" in refusal(read_timed_series, tmp_path / "a.csv", f"x\n1\n{cell}\n2\n")
        assert "line 3, b" in refusal(read_labelled, tmp_path / "a.csv", wide)
        assert "line 3" in refusal(read_labelled, tmp_path / "a.ts", f"@classLabel true a\n@data\n1,{cell}:a\n")


@pytest.mark.parametrize("number", ["1e300", "1" + "0" * 400, "1" + "0" * 5000, "Infinity"])
def test_numbers_of_json(tmp_path: Path, number: str) -> None:
    message = refusal(read_labelled, tmp_path / "a.jsonl", f'{{"values": [1, {number}], "label": 1}}\n')
    assert "line 1" in message


def test_the_largest_number_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1e150\n-1e150\n")
    assert read_series(tmp_path / "a.csv").values.square().isfinite().all()


def test_arrays_of_large_numbers(tmp_path: Path) -> None:
    for value in (np.inf, 1e200):
        np.savez(tmp_path / "a.npz", x=np.array([[1.0, 2], [3, value]]), y=[0, 1])
        assert "example 2" in refusal(read_labelled, tmp_path / "a.npz")


# -- nesting and text ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", ["[", '{"a":'])
def test_json_that_is_nested_deeply(tmp_path: Path, mark: str) -> None:
    for depth in (5_000, 200_000):
        assert "line 2" in refusal(
            read_labelled, tmp_path / "a.jsonl", f'{{"text": "a", "label": 1}}\n{mark * depth}\n'
        )
        refusal(read_rolls, tmp_path / "a.json", mark * depth)
        refusal(read_trees, tmp_path / "b.json", mark * depth)


def test_trees_that_are_nested_deeply(tmp_path: Path) -> None:
    assert "RECURRA_LIMITS=nesting=" in refusal(read_trees, tmp_path / "a.txt", "(1 " * 50_000 + "a" + ")" * 50_000)
    assert "RECURRA_LIMITS=nesting=" in refusal(read_trees, tmp_path / "a.jsonl", "[" * 50_000 + "1" + "]" * 50_000)


@pytest.mark.parametrize(
    "source", ["(" * 3000 + ")" * 3000, "-" * 100_000 + "1", "'" * 7, "def f(:", "\\", "x = 0b2", "if 1:"]
)
def test_python_that_cannot_be_parsed(tmp_path: Path, source: str) -> None:
    refusal(read_trees, tmp_path / "a.py", source)


def test_halves_of_characters(tmp_path: Path) -> None:
    """JSON can write them; neither BPE nor a terminal takes them."""
    assert "half a character" in refusal(read_labelled, tmp_path / "a.jsonl", r'{"text": "a\ud800", "label": 1}')
    refusal(read_trees, tmp_path / "b.jsonl", r'{"label": "a", "children": ["\udc00", "x"]}')
    pytest.importorskip("tokenizers")
    with pytest.raises(DataError, match="half a character"):
        build_tokenizer("bpe", ["a \ud800 b"])


@pytest.mark.parametrize("mark", ["x" * 100_000, "\x1b]0;title\x07", "\u202e" * 400, "\r" * 10 + "y"])
def test_messages_quote_little_and_escape(tmp_path: Path, mark: str) -> None:
    mark = mark[:100_000]
    refusal(read_pairs, tmp_path / "a.tsv", f"{mark}\t{mark}\t{mark}\na\tb\n")
    refusal(read_table, tmp_path / "a.csv", f"{mark},b\n1,2\n")
    refusal(read_trees, tmp_path / "a.txt", f"(1 a) {mark}")
    refusal(read_log, tmp_path / "b.csv", f"{mark},activity\n,a\n")
    refusal(lambda path: read_labelled(path, How(per_step=True)), tmp_path / "a.conll", f"{mark[:50]}\n")
    columns = ",".join(f"{mark[:300]}{k}" for k in range(2000)).replace("\r", "")
    refusal(read_log, tmp_path / "c.csv", f"{columns}\n{','.join('a' * 2000)}\n")


def test_a_long_name_of_a_file(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d" * 200] * 5)
    deep.mkdir(parents=True)
    refusal(read_series, deep / f"{'n' * 200}.csv", "a,b\n1\n")
    for read in READS.values():
        with pytest.raises(RecurraError) as caught:
            read(tmp_path / ("n" * 5000))
        assert len(str(caught.value)) <= LONGEST


# -- arrays and archives -----------------------------------------------------------------------------------------------------


def npy(header: str, data: bytes = b"") -> bytes:
    padded = header.encode("latin1") + b" " * 16 + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(padded)) + padded + data


def head(kind: str, shape: str) -> str:
    return f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\x93NUMPY", b"\x93NUMPY\1\0\xff\xff", b"\x93NUMPY\7\0" + b"0" * 20, b"junk" * 10),
        npy(head("<f8", "(17592186044416,)")),  # claims 128 TB
        npy(head("<f8", "(4294967296, 4294967296)")),
        npy(head("<f8", "(-1,)"), b"0" * 8),
        npy(head("<f8", "(0,)")),
        npy(head("<f8", "()"), b"0" * 8),
        npy(head("<f8", "(1, 1, 1, 1, 1)"), b"0" * 8),
        npy(head("|O", "(1,)"), b"0" * 8),
        npy(head("<f16", "(1,)"), b"0" * 16),
        npy(head("<c16", "(1,)"), b"0" * 16),
        npy(head("<M8[ns]", "(1,)"), b"0" * 8),
        npy(head("|V8", "(1,)"), b"0" * 8),
        npy(head("<U2", "(1,)"), b"\xff" * 8),  # numbers that are no characters
        npy(head("nonsense", "(1,)"), b"0" * 8),
        npy("{'descr': '<f8'", b"0" * 8),
        npy("(" * 3000, b"0" * 8),
    ],
)
def test_arrays_that_are_none(tmp_path: Path, data: bytes) -> None:
    refusal(read_npy, tmp_path / "a.npy", data)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.npy", data)
    refusal(read_labelled, tmp_path / "a.npz", file.getvalue())


def sound_npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def test_archives_that_are_damaged(tmp_path: Path) -> None:
    whole = sound_npz(x=np.ones((4, 3)), y=[0, 1, 0, 1])
    for data in (b"", b"PK", b"PK\5\6" + b"\0" * 18, whole[:-1], whole[: len(whole) // 2], whole[10:], b"junk" * 100):
        refusal(read_labelled, tmp_path / "a.npz", data)
    for place, value in ((6, 1), (8, 97)):  # encrypted; packed in an unknown way
        made = bytearray(whole)
        made[place] |= value
        central = made.find(b"PK\1\2")
        made[central + place + 2] |= value
        refusal(read_labelled, tmp_path / "a.npz", bytes(made))


def test_bombs_are_refused_before_they_go_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "unpacked=20_000_000")
    zeros = zlib.compress(bytes(40_000_000), 9)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"1,2\n" * 10_000_000, 9))
    for read in (read_series, read_log, read_table, read_pairs):
        assert "RECURRA_LIMITS=unpacked=" in refusal(read, tmp_path / "a.csv.gz")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", npy(head("|u1", "(40000000,)"), bytes(40_000_000)))
    assert "RECURRA_LIMITS=unpacked=" in refusal(read_labelled, tmp_path / "a.npz", file.getvalue())
    mat = b"MATLAB 5.0".ljust(124) + b"\0\1IM" + struct.pack("<II", 15, len(zeros)) + zeros
    refusal(read_cells, tmp_path / "a.mat", mat)
    frames = json.dumps({"train": [[[]] * 100_000]}).encode()
    assert "RECURRA_LIMITS=unpacked=" in refusal(read_rolls, tmp_path / "a.json", frames)


@pytest.mark.parametrize("way", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_that_are_packed_as_numpy_does_not(tmp_path: Path, way: int) -> None:
    """What unpacks them has errors of its own, and takes as much memory as a header asks for."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", way) as archive:
        for name in ("x.npy", "y.npy"):
            archive.writestr(name, npy(head("<f8", "(4, 3)"), bytes(96)))
    made = file.getvalue()
    at = made.find(b"x.npy") + 20
    for data in (made, made[:at] + b"\xff" * 20 + made[at + 20 :]):
        assert "np.savez packs" in refusal(read_labelled, tmp_path / "a.npz", data)


def test_a_member_whose_name_is_no_text(tmp_path: Path) -> None:
    made = bytearray(sound_npz(x=np.ones((2, 3)), y=[0, 1]))
    at = made.find(b"PK\1\2")
    made[at + 9] |= 8  # says that the name is UTF-8
    made[at + 46] = 0xA4
    assert "as .npz" in refusal(read_labelled, tmp_path / "a.npz", bytes(made))


def test_too_many_members(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for k in range(limits().members + 1):
            archive.writestr(f"{k}", b"")
    assert "RECURRA_LIMITS=members=" in refusal(read_labelled, tmp_path / "a.npz", file.getvalue())


@pytest.mark.parametrize("labels", [[b"a", b"\xff"], [1.5 + 1j, 2], [[0], [1]]])
def test_labels_of_other_types(tmp_path: Path, labels: list[Any]) -> None:
    refusal(read_labelled, tmp_path / "a.npz", sound_npz(x=np.ones((2, 3)), y=np.array(labels)))


def test_labels_of_bytes_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(sound_npz(x=np.ones((2, 3, 3)), y=np.array(["é".encode(), b"b"])))
    assert read_labelled(tmp_path / "a.npz").labels == ["é", "b"]
    assert read_images(tmp_path / "a.npz").classes == ("b", "é")


def test_sizes_that_an_idx_file_claims(tmp_path: Path) -> None:
    for axes, sizes in ((3, (2**32 - 1,) * 3), (3, (2**22, 2**21, 2**21)), (255, ()), (0, ()), (1, (0,))):
        data = bytes((0, 0, 8, axes)) + struct.pack(f">{len(sizes)}I", *sizes)
        refusal(read_array, tmp_path / "a-idx3-ubyte", data)


def test_matlab_files_that_are_damaged(tmp_path: Path) -> None:
    start = b"MATLAB 5.0".ljust(124) + b"\0\1IM"
    nested = b""
    for _ in range(200):
        nested = struct.pack("<II", 14, 8 + len(nested)) + struct.pack("<II", 6, 0) + nested
    packed = b""
    for _ in range(40):
        packed = zlib.compress(packed)
        packed = struct.pack("<II", 15, len(packed)) + packed
    for inside in (b"\0", nested, packed, struct.pack("<II", 14, 0), struct.pack("<II", 14, 2**32 - 1)):
        refusal(read_cells, tmp_path / "a.mat", start + inside)


# -- sizes -------------------------------------------------------------------------------------------------------------------


def test_every_code_point_there_is(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("".join(chr(code) for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000))
    with pytest.raises(DataError, match=r"different tokens.*data\.max_symbols"):
        build_tokenizer("char", [document.text for document in read_documents(file)])
    assert build_tokenizer("char", [read_documents(file)[0].text], max_size=1000).size == 1000


def test_a_million_columns(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("\n".join(",".join(f"{k}{mark}" for k in range(1_000_000)) for mark in ("x", "")))
    for read in (read_series, read_timed_series, read_labelled, read_table, read_log):
        assert "RECURRA_LIMITS=columns=1000000" in refusal(read, file)
    file.write_text("\n".join([",".join(f"c{k}" for k in range(60_000)), *[",".join(map(str, range(60_000)))] * 3]))
    assert read_series(file).values.shape == (3, 60_000)
    refusal(read_table, file)


def test_limits_can_be_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("a,b,c\n1,2,3\n")
    monkeypatch.setenv(VARIABLE, "columns=2")
    refusal(read_series, tmp_path / "a.csv")
    monkeypatch.setenv(VARIABLE, "columns=3, cells=1e3")
    assert read_series(tmp_path / "a.csv").values.shape == (1, 3)
    for wrong in ("column=3", "columns=many", "columns=0", "columns"):
        monkeypatch.setenv(VARIABLE, wrong)
        with pytest.raises(OptionError, match=VARIABLE):
            limits()


@pytest.mark.parametrize("target", READS)
def test_a_path_with_a_zero_byte(target: str, tmp_path: Path) -> None:
    """Which no path can have, and Python refuses in words of its own."""
    with pytest.raises(DataError, match="zero byte"):
        READS[target](tmp_path / "a\0.npz")


def test_what_never_ends_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    for read in READS.values():
        refusal(read, tmp_path / "pipe.csv")
    for device in ("/dev/zero", "/dev/urandom"):
        with pytest.raises(DataError, match="may never end"):
            read_bytes(device)
    with (tmp_path / "sparse.csv").open("wb") as file:
        file.truncate(2**40)
    for read in (read_series, read_log):
        assert "RECURRA_LIMITS=file=" in refusal(read, tmp_path / "sparse.csv")


# -- run folders -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "edit"),
    [
        ("forecast", {"lags": list(range(1, 500)), "linear": "AR(500)", "window": 500}),
        ("classify", {"labels": {"c0": 500, "c1": 3}}),
    ],
)
def test_what_a_run_keeps_of_other_data(
    kind: str, edit: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sound in itself, checksums and all; a resume makes the network from it, and then meets the data."""
    folder = sound(kind, tmp_path)
    kept = json.loads((folder / "vocabulary.json").read_text())
    assert edit.keys() <= kept.keys()
    (folder / "vocabulary.json").write_text(json.dumps(kept | edit))
    sign(folder)
    capsys.readouterr()
    assert run(["train", "--resume", str(folder)]) == 2
    assert "does not fit this run" in capsys.readouterr().err.splitlines()[-1]


def test_a_best_value_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a checkpoint that is finished: nothing compares it before the end is told."""
    folder = sound("tomita", tmp_path)
    file = folder / "checkpoints" / "last" / "resume.json"
    kept = json.loads(file.read_text())
    kept["facts"]["best"] = None
    file.write_text(json.dumps(kept))
    sign(folder)
    capsys.readouterr()
    assert run(["train", "--resume", str(folder)]) == 2
    assert "does not fit this run" in capsys.readouterr().err.splitlines()[-1]


def test_a_baseline_without_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = sound("forecast", tmp_path)
    kept = json.loads((folder / "vocabulary.json").read_text())
    del kept["linear"]
    (folder / "vocabulary.json").write_text(json.dumps(kept))
    sign(folder)
    capsys.readouterr()
    assert run(["evaluate", str(folder), "--no-baselines"]) == 0
    assert "on a linear baseline" in capsys.readouterr().out


def test_a_baseline_without_its_lags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = sound("forecast", tmp_path)
    kept = json.loads((folder / "vocabulary.json").read_text())
    del kept["lags"]
    (folder / "vocabulary.json").write_text(json.dumps(kept))
    sign(folder)
    capsys.readouterr()
    assert run(["train", "--resume", str(folder)]) == 2
    assert "does not fit this run" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("lags", [[1000, 2], [0, 1], [-1, 2], [2, 2], [], [1, 10**9], [1, 10**30]])
def test_lags_that_no_baseline_has(lags: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = sound("forecast", tmp_path)
    kept = json.loads((folder / "vocabulary.json").read_text())
    (folder / "vocabulary.json").write_text(json.dumps(kept | {"lags": lags}))
    sign(folder)
    capsys.readouterr()
    for command in (["forecast", str(folder), "--steps", "3"], ["evaluate", str(folder), "--no-baselines"]):
        assert run(command) == 2
        assert "lags" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("shape", [[-2], [0], [], [2, -1], [2, 2], [10**12], [10**30], [1] * 70])
def test_examples_of_a_shape_that_none_has(
    shape: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = sound("feedforward", tmp_path)
    kept = json.loads((folder / "vocabulary.json").read_text())
    (folder / "vocabulary.json").write_text(json.dumps(kept | {"shape": shape}))
    sign(folder)
    capsys.readouterr()
    assert run(["evaluate", str(folder), "--no-baselines"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].isprintable()


# -- settings ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        lambda file: rc.models.EchoState(1, 1, leak=[1.0, 2.0] * 2000),
        lambda file: rc.RECIPES["reservoir"].configure([f"data.path={file}", f"data.columns={'a,' * 3000}"]).trainer(),
        lambda file: rc.RECIPES["forecast"].configure([f"data.path={file}", f"data.columns={'a,' * 3000}"]).trainer(),
        lambda file: rc.models.convolutional([1, 8, 8], 2, channels=[0, -1] * 2000),
        lambda file: rc.models.convolutional([8] * 2000, 2, channels=[3]),
    ],
)
def test_lists_of_thousands_of_values(build: Callable[[Path], Any], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n" + "1,2\n3,1\n" * 600)
    with pytest.raises(RecurraError) as caught:
        build(tmp_path / "a.csv")
    assert len(str(caught.value)) <= LONGEST


def test_a_case_of_a_million_triggers() -> None:
    """Its simulation alone took half a minute, and each step of training as long, without a word."""
    with pytest.raises(OptionError, match=r"data\.length"):
        rc.RECIPES["washing-machine-log"].configure(["data.cases=10", "data.length=1e6"])


def test_a_convolution_over_more_steps_than_can_be_counted() -> None:
    with pytest.raises(OptionError, match=r"model\.convolution"):
        rc.RECIPES["signal-and-noise"].configure([f"model.convolution={2**63 + 1}"])
