"""Small sound files of every format that is read, drawn at random: what mutations start from."""

import gzip
import io
import json
import random
import struct
from collections.abc import Callable

import numpy as np

Make = Callable[[random.Random], bytes]

WORDS = ("good", "bad", "film", "a", "the", "ça", "naïve", "日本", "x1", "don't", "😀")
DATES = ("2024-01-{:02d}", "2024-01-{:02d}T12:00:00+02:00", "{:02d}-01-2024 10:00:00", "17000{:02d}000")


def words(draw: random.Random, low: int = 1, high: int = 6) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(draw.randint(low, high)))


def number(draw: random.Random) -> str:
    return draw.choice((f"{draw.gauss(0, 1):.4g}", str(draw.randint(-9, 99)), f"{draw.random():.3e}"))


def rows(draw: random.Random, header: list[str], cells: list[Callable[[], str]], most: int = 30) -> bytes:
    mark = draw.choice(",;\t")
    quote = draw.random() < 0.2
    written = [[*header]] + [[cell() for cell in cells] for _ in range(draw.randint(3, most))]
    lines = [mark.join(f'"{cell}"' if quote else cell for cell in row) for row in written]
    return draw.choice(("\n", "\n", "\r\n")).join(lines).encode() + b"\n"


def text(draw: random.Random) -> bytes:
    return "\n".join(words(draw, 3, 12) for _ in range(draw.randint(8, 30))).encode()


def reviews(draw: random.Random) -> bytes:
    return rows(draw, ["text", "label"], [lambda: words(draw), lambda: draw.choice("ab")])


def steps(draw: random.Random) -> bytes:
    size = draw.randint(2, 5)
    header = [*(f"t{k}" for k in range(size)), "label"]
    return rows(draw, header, [lambda: number(draw)] * size + [lambda: draw.choice(("1", "2", "x"))])


def json_lines(draw: random.Random) -> bytes:
    kind = draw.choice(("text", "tokens", "values", "channels"))
    value: dict[str, Callable[[], object]] = {
        "text": lambda: words(draw),
        "tokens": lambda: words(draw, 2, 4).split(),
        "values": lambda: [draw.gauss(0, 1) for _ in range(3)],
        "channels": lambda: [[draw.gauss(0, 1), None] for _ in range(3)],
    }
    name = {"channels": "values"}.get(kind, kind)
    made = [{name: value[kind](), "label": draw.choice(["a", "b", 3])} for _ in range(draw.randint(4, 20))]
    return "\n".join(json.dumps(row, ensure_ascii=draw.random() < 0.5) for row in made).encode()


def tags(draw: random.Random) -> bytes:
    made = [f"{draw.choice(WORDS)}\t{draw.choice('NV')}" for _ in range(draw.randint(6, 40))]
    return "\n".join("" if draw.random() < 0.2 else line for line in made).encode()


def ts(draw: random.Random) -> bytes:
    size, channels = draw.randint(1, 5), draw.randint(1, 3)
    series = [
        ":".join(
            [*(",".join(number(draw) for _ in range(size)) for _ in range(channels)), draw.choice(("left", "right"))]
        )
        for _ in range(draw.randint(4, 12))
    ]
    return "\n".join(["# a comment", "@classLabel true left right", "@data", *series]).encode()


def series(draw: random.Random) -> bytes:
    size = draw.randint(1, 3)
    return rows(draw, [f"channel{k}" for k in range(size)], [lambda: number(draw)] * size, 80)


def timed(draw: random.Random) -> bytes:
    form, day = draw.choice(DATES), iter(range(1, 99))
    return rows(draw, ["date", "load"], [lambda: form.format(next(day)), lambda: number(draw)], 28)


def log(draw: random.Random) -> bytes:
    cells = [
        lambda: str(draw.randint(1, 6)),
        lambda: draw.choice(("start", "pay", "send")),
        lambda: "2024-01-02 10:00:00",
    ]
    return rows(draw, ["case", "activity", "timestamp", "who"], [*cells, lambda: draw.choice("xyz")], 60)


def xes(draw: random.Random) -> bytes:
    def one(key: str, value: str) -> str:
        return f'<string key="{key}" value="{value}"/>'

    traces = [
        f"<trace>{one('concept:name', str(k))}"
        + "".join(
            f"<event>{one('concept:name', draw.choice(('start', 'pay')))}"
            f'<date key="time:timestamp" value="2024-01-0{1 + j}T10:00:00.000+01:00"/></event>'
            for j in range(draw.randint(1, 5))
        )
        + "</trace>"
        for k in range(draw.randint(3, 9))
    ]
    encoding = draw.choice(
        ("UTF-8", "utf-8", "UTF-16", "ISO-8859-1", "US-ASCII", "shift_jis", "gbk", "utf-7", "idna", "?")
    )
    return f'<?xml version="1.0" encoding="{encoding}"?>\n<log xmlns="http://x">{"".join(traces)}</log>'.encode()


def pairs(draw: random.Random) -> bytes:
    return "\n".join(f"{words(draw)}\t{words(draw)}" for _ in range(draw.randint(5, 30))).encode()


def pair_table(draw: random.Random) -> bytes:
    return "\n".join(f'"{words(draw)}",{words(draw)}' for _ in range(draw.randint(5, 30))).encode()


def nested(draw: random.Random, depth: int = 3) -> list[object] | str:
    if depth == 0 or draw.random() < 0.3:
        return draw.choice(WORDS)
    return [nested(draw, depth - 1) for _ in range(draw.randint(1, 3))]


def brackets(draw: random.Random) -> bytes:
    def write(value: list[object] | str) -> str:
        inside = value if isinstance(value, str) else " ".join(write(each) for each in value)  # type: ignore[arg-type]
        return f"({draw.randint(0, 2)} {inside})"

    return "\n".join(write(nested(draw)) for _ in range(draw.randint(5, 20))).encode()


def tree_objects(draw: random.Random) -> bytes:
    made = [{"label": draw.choice("ab"), "children": [nested(draw), "x"]} for _ in range(draw.randint(5, 20))]
    return json.dumps(made).encode()


def tree_lines(draw: random.Random) -> bytes:
    return "\n".join(json.dumps(each) for each in json.loads(tree_objects(draw))).encode()


def source(draw: random.Random) -> bytes:
    names = [draw.choice("abcd") for _ in range(draw.randint(2, 6))]
    return "\n".join(
        f"def {name}(x):\n    return x + {draw.randint(0, 9)} if x else '{name}'\n" for name in names
    ).encode()


def rolls(draw: random.Random) -> bytes:
    def piece() -> list[list[int]]:
        return [[draw.randint(21, 108) for _ in range(draw.randint(0, 3))] for _ in range(draw.randint(2, 6))]

    return json.dumps({part: [piece() for _ in range(3)] for part in ("train", "valid", "test")}).encode()


def mat(draw: random.Random) -> bytes:
    from scipy.io import savemat

    made: dict[str, np.ndarray] = {}
    for part in ("traindata", "validdata", "testdata"):
        pieces = np.empty((1, 2), dtype=object)
        for k in range(2):
            pieces[0, k] = np.array([[draw.randint(0, 1) for _ in range(88)] for _ in range(3)]).astype(
                draw.choice(("u1", "f8"))
            )
        made[part] = pieces
    file = io.BytesIO()
    savemat(file, made, do_compression=draw.random() < 0.5)
    return file.getvalue()


def table(draw: random.Random) -> bytes:
    header = ["width", "height", "species"]
    return rows(draw, header, [lambda: number(draw), lambda: number(draw), lambda: draw.choice(("cat", "dog"))])


def classes(draw: random.Random) -> bytes:
    return "\n".join(f"{draw.choice(('de', 'en'))}\t{words(draw)}" for _ in range(draw.randint(8, 30))).encode()


def labels(draw: random.Random) -> bytes:
    return b"text\ttag\nthe\tDET\ncat\tNOUN\n"


def arrays(draw: random.Random) -> tuple[np.ndarray, np.ndarray]:
    count = draw.randint(4, 9)
    kind = draw.choice(("u1", "f4", "f8", "i2"))
    shape = draw.choice(((count, 3, 2), (count, 5), (count, 1, 3, 2)))
    values = np.array([draw.randint(0, 99) for _ in range(int(np.prod(shape)))]).reshape(shape).astype(kind)
    return values, np.array([draw.randint(0, 1) for _ in range(count)]).astype(draw.choice(("u1", "i8", "U3", "S2")))


def npz(draw: random.Random) -> bytes:
    file = io.BytesIO()
    x, y = arrays(draw)
    (np.savez if draw.random() < 0.5 else np.savez_compressed)(file, x=x, y=y)
    return file.getvalue()


def npy(draw: random.Random) -> bytes:
    file = io.BytesIO()
    np.save(file, arrays(draw)[0])
    return file.getvalue()


def idx(draw: random.Random) -> bytes:
    count = draw.randint(2, 5)
    values = bytes(draw.randint(0, 255) for _ in range(count * 6))
    return bytes((0, 0, 8, 3)) + struct.pack(">3I", count, 3, 2) + values


def vectors(draw: random.Random) -> bytes:
    size = draw.randint(1, 5)
    lines = [" ".join([word, *(number(draw) for _ in range(size))]) for word in WORDS]
    header = [f"{len(WORDS)} {size}"] if draw.random() < 0.5 else []
    return "\n".join([*header, *lines]).encode() + b"\n"


def packed(make: Make) -> Make:
    return lambda draw: gzip.compress(make(draw), 1, mtime=0)


FILES: dict[str, Make] = {
    "a.txt": text,
    "a.txt.gz": packed(text),
    "reviews.csv": reviews,
    "steps.csv": steps,
    "a.jsonl": json_lines,
    "a.conll": tags,
    "a.ts": ts,
    "series.csv": series,
    "timed.csv": timed,
    "log.csv": log,
    "log.csv.gz": packed(log),
    "log.xes": xes,
    "log.xes.gz": packed(xes),
    "pairs.tsv": pairs,
    "pairs.csv": pair_table,
    "trees.txt": brackets,
    "trees.json": tree_objects,
    "trees.jsonl": tree_lines,
    "source.py": source,
    "rolls.json": rolls,
    "rolls.mat": mat,
    "table.csv": table,
    "classes.tsv": classes,
    "labels.tsv": labels,
    "vectors.txt": vectors,
    "vectors.txt.gz": packed(vectors),
    "a.npz": npz,
    "images.npy": npy,
    "images-idx3-ubyte": idx,
    "images-idx3-ubyte.gz": packed(idx),
}
"""The name that each kind of file has, and what makes one."""
