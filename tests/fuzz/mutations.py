"""Damage that knows what it damages: bytes, cells, lines, numbers, dates, nesting, members of archives, headers of arrays."""

import gzip
import io
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable

NASTY = (
    *(
        "",
        " ",
        "nan",
        "NaN",
        "inf",
        "-Infinity",
        "1e308",
        "-1e300",
        "1e200",
        "1e150",
        "1e-320",
        "5e-324",
        "0",
        "-0.0",
        "1_0",
    ),
    *("9" * 400, "9" * 5000, "0x1F", "١٢", "²", "+", "-", ".", "1e", "NULL", "None", "true", "?", "1,5", "1;2", "1\t2"),
    *(
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "9999-12-01",
        "9999-11-01",
        "10000-01-01",
        "0000-00-00",
    ),
    *("-62135596801", "-62135596800", "253402300799", "253402300800", "-99999999999", "1e11", "20240101", "2024-02-30"),
    *("2024-W01-1", "2024-01-01T00:00:00Z", "2024-01-01T24:00:00", "31.12.2024 23:59", "12:00"),
    *("\0", "\x1b[31m", "\u202e", "\ufeff", "\x85", "\u2028", "\x1c", "\r", "😀" * 50, "e" + "\u0301" * 50, "ß" * 300),
    *(
        '"',
        '""',
        "'",
        ",",
        ";",
        "\t",
        "|",
        "\\",
        "(",
        ")",
        "()",
        "(1",
        "[",
        "]",
        "{",
        "}",
        "[" * 3000,
        "(" * 3000,
        "{" * 50,
    ),
    *('"\\ud800"', "\\ud800", "\\u0000", '{"a":' * 2000, "[[1,[2]],3]", '{"children":[]}', "null", "1" + "0" * 308),
    *("<!DOCTYPE x [<!ENTITY a 'b'>]>", "&a;", "&amp;", "<trace>", "</trace>", "<event/>", "<!--", "<![CDATA["),
    *(
        'encoding="utf-32"',
        'encoding="nonsense"',
        'key="concept:name"',
        "@data",
        "@timeStamps true",
        "@classLabel",
        ":",
    ),
    *("def", "class", "async", "    ", "\\", "0b2", "f'{", '"""', "lambda: (" * 200, "-" * 200, "# coding: utf-7"),
    *(
        "text",
        "label",
        "date",
        "time",
        "case",
        "y",
        "long " * 2000,
        "column 1",
        "=1+1",
        "../../etc/passwd",
        "$(id)",
        "%s%n",
    ),
)
Mutation = Callable[[random.Random, bytes], bytes]
LARGEST = 200_000
"""Bytes that a mutated file has at most."""


def flip(draw: random.Random, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8))):
        if made:
            made[draw.randrange(len(made))] = draw.choice((0, 255, 0x80, draw.randrange(256), draw.randrange(256)))
    return bytes(made)


def cut(draw: random.Random, data: bytes) -> bytes:
    at = draw.randint(0, len(data))
    return data[:at] if draw.random() < 0.7 else data[at:]


def drop(draw: random.Random, data: bytes) -> bytes:
    at = draw.randint(0, len(data))
    return data[:at] + data[at + draw.choice((1, 2, 4, 16)) :]


def repeat(draw: random.Random, data: bytes) -> bytes:
    at = draw.randint(0, len(data))
    part = data[at : at + draw.choice((1, 4, 20, 100))]
    return data[:at] + part * draw.choice((2, 3, 50)) + data[at:]


def insert(draw: random.Random, data: bytes) -> bytes:
    at = draw.randint(0, len(data))
    return data[:at] + draw.choice(NASTY).encode("utf-8", "surrogatepass") + data[at:]


def replace_word(draw: random.Random, data: bytes) -> bytes:
    """A word, number or date becomes a nasty one."""
    found = list(re.finditer(rb"[^\s,;:\t\"'()\[\]{}<>=]+", data))
    for _ in range(draw.choice((1, 1, 3))):
        if found:
            word = draw.choice(found)
            data = data[: word.start()] + draw.choice(NASTY).encode() + data[word.end() :]
            found = [each for each in found if each.end() <= word.start()]
    return data


def replace_column(draw: random.Random, data: bytes) -> bytes:
    """All cells of a column but the first become nasty ones."""
    lines = data.split(b"\n")
    mark = max(b",;\t:", key=lambda each: lines[0].count(bytes([each])))
    column, value = draw.randint(0, 3), draw.choice(NASTY).encode()
    for k in range(1, len(lines)):
        cells = lines[k].split(bytes([mark]))
        if column < len(cells):
            cells[column] = value if draw.random() < 0.8 else cells[column]
            lines[k] = bytes([mark]).join(cells)
    return b"\n".join(lines)


def move_lines(draw: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    match draw.randrange(5):
        case 0:
            draw.shuffle(lines)
        case 1:
            lines = lines[1:]
        case 2:
            lines.insert(draw.randint(0, len(lines)), draw.choice(lines))
        case 3:
            lines = lines[:1]
        case _:
            lines = [b"", *lines, b"", b""]
    return b"\n".join(lines)


def recode(draw: random.Random, data: bytes) -> bytes:
    """Another encoding, or a mark of one."""
    text = data.decode("utf-8", "replace")
    encoding = draw.choice(
        ("utf-16", "utf-32", "utf-7", "latin-1", "cp1252", "utf-8-sig", "shift_jis", "gbk", "utf-16-le")
    )
    return text.encode(encoding, "replace")


PLAIN: tuple[Mutation, ...] = (
    flip,
    cut,
    drop,
    repeat,
    insert,
    replace_word,
    replace_word,
    replace_column,
    move_lines,
    recode,
)
RAW: tuple[Mutation, ...] = (flip, flip, cut, drop, repeat, insert)


def header(draw: random.Random, data: bytes) -> bytes:
    """Another type or shape in the header of an array; what follows stays."""
    types = (b"<f8", b"<f16", b"|O", b"|V8", b"<c16", b"<M8[ns]", b"|S3", b"<U2", b"|b1", b">i4", b"<u8", b"nonsense")
    shapes = (
        b"()",
        b"(0,)",
        b"(-1,)",
        b"(4, 1000000000000)",
        b"(140737488355328,)",
        b"(1, 1, 1, 1, 1, 1)",
        b"(2",
        b"(5,)",
    )
    if draw.random() < 0.5:
        return re.sub(rb"'descr': '[^']*'", b"'descr': '" + draw.choice(types) + b"'", data)
    return re.sub(rb"\([^)]*\)", draw.choice(shapes), data, count=1)


def values(draw: random.Random, data: bytes) -> bytes:
    """Other numbers in the second half of a file: its header stays."""
    made = bytearray(data)
    for _ in range(draw.choice((1, 4, 20))):
        if len(made) > 32:
            at = draw.randrange(len(made) // 2, len(made) - 8)
            special = draw.choice((1e300, float("nan"), float("inf"), -1e-320, 0.0, 1e38, 3e38))
            made[at : at + 8] = draw.choice(
                (struct.pack("<d", special), b"\xff" * 8, bytes(8), struct.pack("<2f", 1e38, 2.0))
            )
    return bytes(made)


def mutate_archive(draw: random.Random, data: bytes) -> bytes:
    """The members of a zip file, or the file itself."""
    if draw.random() < 0.3:
        return draw.choice(RAW)(draw, data)
    made = io.BytesIO()
    way = draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w", way) as new:
        for name in old.namelist():
            member = old.read(name)
            if draw.random() < 0.6:
                member = draw.choice((header, header, values, values, values, *RAW))(draw, member)
            name = draw.choice((name, name, name, "z.npy", "x", "../x.npy", "y.npy"))
            if name not in new.namelist():
                new.writestr(name, member)
    result = bytearray(made.getvalue())
    if draw.random() < 0.1:  # claims to be encrypted, or to be packed in an unknown way
        for mark, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
            at = result.find(mark)
            result[at + place + 2 * (draw.random() < 0.5)] |= draw.choice((1, 97))
    return flip(draw, bytes(result)) if draw.random() < 0.2 else bytes(result)


def mutate(draw: random.Random, name: str, data: bytes) -> bytes:
    """A file with some damage, or none."""
    if draw.random() < 0.06:
        return data
    if draw.random() < 0.03:
        return draw.choice(
            (b"", b"\n", b"\0", b" ", b"\xff\xfe", b"PK\3\4", b"\x1f\x8b", b"{}", b"[]", b"()", b"MATLAB 5.0")
        )
    if name.endswith(".gz"):
        if draw.random() < 0.15:
            return draw.choice(RAW)(draw, data)
        return gzip.compress(mutate(draw, name.removesuffix(".gz"), gzip.decompress(data)), 1, mtime=0)
    if name.endswith(".npz"):
        return mutate_archive(draw, data)
    raw = name.endswith((".mat", ".npy", "ubyte"))
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        data = draw.choice((*RAW, header, values, values, values) if raw else PLAIN)(draw, data)[:LARGEST]
    return repack(draw, data) if name.endswith(".mat") and draw.random() < 0.3 else data


def repack(draw: random.Random, data: bytes) -> bytes:
    """Packed elements of a MATLAB file, damaged inside."""
    try:
        inside = zlib.decompress(data[136:])
    except zlib.error:
        return data
    made = zlib.compress(draw.choice(RAW)(draw, inside))
    return data[:132] + len(made).to_bytes(4, "little") + made
