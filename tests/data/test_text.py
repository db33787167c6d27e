"""Reading files and splitting them."""

import gzip
import os
import sysconfig

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recurra.data.text import (
    Document,
    python_source,
    read_documents,
    read_split,
    split_by_document,
    split_by_position,
    split_lines,
)
from recurra.errors import DataError, OptionError


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def names(documents):
    return [document.name for document in documents]


FOLDER = {
    "b.txt": "second",
    "a/z.py": "first, as a folder sorts",
    "a/deep/er.md": "ζήτα",
    "packed.txt.gz": gzip.compress("packed ☃".encode(), mtime=0),
    "no ending": "also text",
    "empty.txt": "",
    "picture.png": b"\x89PNG\r\n\x1a\n\0\0",
    "late.bin": b"x" * 10_000 + b"\xff",
    "late.zero": b"x" * 10_000 + b"\0",
    "latin.txt": "café".encode("latin-1"),
    "broken.gz": b"not gzip",
    ".hidden": "hidden",
    ".git/config": "hidden folder",
}


def test_a_file(tmp_path):
    write(tmp_path, {"one.txt": "line\nåß☃\U0001f600\n"})
    assert read_documents(tmp_path / "one.txt") == [Document("one.txt", "line\nåß☃\U0001f600\n")]
    assert read_documents(str(tmp_path / "one.txt")) == read_documents(tmp_path / "one.txt")


def test_line_ends_and_byte_order_marks_are_not_text(tmp_path):
    write(tmp_path, {"windows.txt": b"\xef\xbb\xbfa\r\nb\rc\n"})
    assert read_documents(tmp_path / "windows.txt")[0].text == "a\nb\nc\n"


def test_gzip(tmp_path):
    write(tmp_path, {"one.txt.gz": gzip.compress("tiny ☃\r\n".encode(), mtime=0)})
    assert read_documents(tmp_path / "one.txt.gz") == [Document("one.txt.gz", "tiny ☃\n")]


def test_a_folder_gives_its_text_files_sorted(tmp_path):
    write(tmp_path, FOLDER)
    found = read_documents(tmp_path)
    assert names(found) == ["a/deep/er.md", "a/z.py", "b.txt", "no ending", "packed.txt.gz"]
    assert found[0].text == "ζήτα"
    assert found[-1].text == "packed ☃"


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path):
    write(tmp_path, {"a.txt": "a"})
    os.mkfifo(tmp_path / "pipe")
    assert names(read_documents(tmp_path)) == ["a.txt"]


def test_a_pattern(tmp_path):
    write(tmp_path, FOLDER)
    assert names(read_documents(tmp_path / "*.txt")) == ["b.txt"]
    assert names(read_documents(f"{tmp_path}/**/*.[mp]*")) == ["a/deep/er.md", "a/z.py"]
    write(tmp_path, {"odd[1].txt": "its name looks like a pattern"})
    assert names(read_documents(tmp_path / "odd[1].txt")) == ["odd[1].txt"]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("empty.txt", b"", r"empty\.txt, but the file is empty\. Name one"),
        ("empty.gz", gzip.compress(b"", mtime=0), r"the file is empty"),
        ("zeros.txt", b"abc\0def", r"zeros\.txt, but it holds zero bytes: the file is binary .* Convert it to UTF-8"),
        ("late.txt", b"x" * 10_000 + b"\0", r"holds zero bytes"),
        ("latin.txt", "café".encode("latin-1"), r"latin.txt, line 1: byte 0xe9 is not UTF-8"),
        ("wide.txt", "wide".encode("utf-16"), r"zero bytes: .* another encoding"),
        ("plain.gz", b"not gzip", r"plain\.gz was read as gzip, but it is damaged .* Rename or replace"),
        ("short.gz", gzip.compress(b"x" * 1000, mtime=0)[:-12], r"short\.gz was read as gzip, but it is damaged"),
    ],
)
def test_a_named_file_must_hold_text(tmp_path, name, content, expected):
    write(tmp_path, {name: content})
    with pytest.raises(DataError, match=expected) as caught:
        read_documents(tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("missing.txt", r"missing\.txt, which does not exist\. Check the path"),
        ("folder", r"folder, but there is no text file under it\. Text is UTF-8"),
        ("folder/*", r"but it matches no text file \(1 paths in all\)"),
        ("folder/*.txt", r"but it matches no text file \(0 paths in all\)"),
        ("", r"folder, but there is no text"),  # see below: an empty path is not the current folder
        ("x" * 300, r"cannot be read \(File name too long\)"),
    ],
)
def test_nothing_to_read(tmp_path, path, expected):
    write(tmp_path, {"folder/picture.png": b"\0"})
    with pytest.raises(DataError, match=expected) as caught:
        read_documents(tmp_path / (path or "folder"))
    assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match="No path was given"):
        read_documents("")


@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_may_not_be_read_is_not_left_out_in_silence(tmp_path, monkeypatch, what):
    write(tmp_path, {"secret/a.txt": "a", "b.txt": "b"})

    def refuse(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(*(("os.scandir", refuse) if what == "folder" else ("pathlib.Path.open", refuse)))
    with pytest.raises(DataError, match=r"cannot be read \(Permission denied\)\. Check the path and its permissions"):
        read_documents(tmp_path)


def test_python_source_is_the_library_without_its_tests(tmp_path, monkeypatch):
    write(
        tmp_path,
        {
            "b.py": "b = 1\n",
            "a/c.py": "c = 1\n",
            "empty.py": "",
            "latin.py": "# é".encode("latin-1"),
            "notes.txt": "no",
            "unittest/case.py": "kept\n",
            **dict.fromkeys(
                [
                    "test/test_b.py",
                    "unittest/test/x.py",
                    "lib2to3/tests/data/bom.py",
                    "idlelib/idle_test/x.py",
                    "site-packages/torch/x.py",
                    "__pycache__/b.py",
                ],
                "no",
            ),
        },
    )
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path) if name == "stdlib" else None)
    assert python_source() == [
        Document("a/c.py", "c = 1\n"),
        Document("b.py", "b = 1\n"),
        Document("unittest/case.py", "kept\n"),
    ]
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "test"))
    write(tmp_path, {"test/test_b.py": ""})
    with pytest.raises(DataError, match=r"holds no \.py file\. Name a file of your own"):
        python_source()


def test_python_source_is_there_and_does_not_change():
    found = python_source()
    assert found == python_source()
    assert sum(len(document.text) for document in found) > 5_000_000
    assert {"json/decoder.py", "asyncio/base_events.py", "unittest/mock.py"} < set(names(found))
    assert [name.split("/") for name in names(found)] == sorted(name.split("/") for name in names(found))


DOCUMENTS = [Document(f"file {k}.txt", f"text {k}") for k in range(40)]


@given(
    documents=st.lists(st.builds(Document, st.text(max_size=3), st.text(max_size=3)), min_size=3, max_size=30),
    seed=st.integers(-3, 3),
    random=st.randoms(),
)
def test_a_split_by_document_deals_each_once_whatever_their_order(documents, seed, random):
    split = split_by_document(documents, 0.1, 0.2, seed)
    parts = [split.train, split.valid, split.test]
    key = lambda document: (document.name, document.text)  # noqa: E731
    assert sorted((d for part in parts for d in part), key=key) == sorted(documents, key=key)
    assert all(parts)
    assert len(split.valid) == max(1, round(0.1 * len(documents)))
    assert len(split.test) == max(1, round(0.2 * len(documents)))
    shuffled = random.sample(documents, len(documents))
    again = split_by_document(shuffled, 0.1, 0.2, seed)
    for part, same in zip(parts, (again.train, again.valid, again.test), strict=True):
        assert sorted(part, key=key) == sorted(same, key=key)


def test_a_split_by_document_is_the_same_on_every_machine():
    split = split_by_document(DOCUMENTS)
    assert names(split.valid) == ["file 6.txt", "file 27.txt"]
    assert names(split.test) == ["file 0.txt", "file 14.txt"]
    assert names(split.train) == [name for name in names(DOCUMENTS) if name not in names(split.valid + split.test)]
    assert split_by_document(DOCUMENTS, seed=1) != split
    assert split_by_document(DOCUMENTS, 0.05, 0).test == []


def test_a_split_by_document_needs_documents():
    with pytest.raises(DataError, match=r"into 3 parts .* there are 2 documents\. Give more, or split .* by position"):
        split_by_document(DOCUMENTS[:2])
    assert len(split_by_document(DOCUMENTS[:2], 0.1, 0).valid) == 1


def test_a_split_by_position_cuts_where_others_cut():
    assert [len(part) for part in split_by_position("x" * 1_115_394, 0.1, 0)] == [int(1_115_394 * 0.9), 111_540, 0]
    assert [len(part) for part in split_by_position("x" * 100, 0.05, 0.05)] == [90, 5, 5]


@given(text=st.text(max_size=50), valid=st.floats(0, 0.5), test=st.floats(0, 0.4))
def test_a_split_by_position_loses_nothing(text, valid, test):
    assert "".join(split_by_position(text, valid, test)) == text


def test_lines_are_dealt_at_random():
    lines = [f"line {k}" for k in range(1000)]
    train, valid, test = split_lines(lines, 0.1, 0.2, seed=3)
    assert [len(train), len(valid), len(test)] == [700, 100, 200]
    assert sorted(train + valid + test) == sorted(lines)
    assert [lines.index(line) for line in valid] == sorted(lines.index(line) for line in valid)
    assert 300 < sum(lines.index(line) for line in valid) / 100 < 700
    assert split_lines(lines, 0.1, 0.2, seed=3) == (train, valid, test)
    assert split_lines(lines, 0.1, 0.2, seed=4)[1] != valid
    _, letters, none = split_lines(["a", "b"] * 100, 0.5, 0, seed=0)
    assert set(letters) == {"a", "b"}, "lines that are the same are dealt one by one"
    assert none == []


@pytest.mark.parametrize(("valid", "test"), [(-0.1, 0), (0, -0.1), (0.5, 0.5), (1, 0), (float("nan"), 0)])
def test_fractions_leave_something_to_train_on(valid, test):
    for split in (lambda: split_by_document(DOCUMENTS, valid, test), lambda: split_by_position("text", valid, test)):
        with pytest.raises(OptionError, match=f"valid={valid}, test={test}"):
            split()
    with pytest.raises(OptionError, match="fractions"):
        split_lines(["a", "b"], valid, test)


@pytest.mark.parametrize(
    ("named", "sizes"),
    [
        ((None, None), (6, 2, 2)),
        (("valid", None), (8, 3, 2)),
        ((None, "test"), (8, 2, 3)),
        (("valid", "test"), (10, 3, 3)),
    ],
)
def test_a_part_with_its_own_file_takes_no_share(tmp_path, named, sizes):
    for name, count in (("train", 10), ("valid", 3), ("test", 3)):
        (tmp_path / name).write_text("".join(f"{name} {k}\n" for k in range(count)))

    def read(path):
        return read_documents(path)[0].text.splitlines()

    paths = [None if name is None else str(tmp_path / name) for name in named]
    parts = read_split(read, split_lines, str(tmp_path / "train"), *paths, valid=0.2, test=0.2)
    assert tuple(map(len, parts)) == sizes
    for name, part in zip(("train", *named), parts, strict=True):
        assert all(line.startswith(name or "train") for line in part)
    assert len({line for part in parts for line in part}) == sum(sizes)
