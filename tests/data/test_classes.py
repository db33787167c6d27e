"""Examples with classes: tables, images and synthetic points are read as they are, and wrong ones are refused in one line."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recurra.data.classes import Labelled, LabelledBatches
from recurra.data.images import read_images
from recurra.data.number_table import read_table
from recurra.data.plane import TASKS, synthetic
from recurra.errors import DataError, OptionError

IRIS = "length,width,species\n5.1,3.5,setosa\n7.0,3.2,versicolor\n4.9,3.0,setosa\n6.4,3.2,versicolor\n"


def write(folder: Path, text: str, name: str = "table.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


class TestTables:
    def test_columns_become_inputs_and_one_becomes_classes(self, tmp_path: Path) -> None:
        table = read_table(write(tmp_path, IRIS))
        assert table.columns == ("length", "width")
        assert table.classes == ("setosa", "versicolor")
        assert table.x.tolist() == [[5.1, 3.5], [7.0, 3.2], [4.9, 3.0], [6.4, 3.2]]
        assert table.labels.tolist() == [0, 1, 0, 1]
        assert "label 'species' (guessed)" in table.about

    @pytest.mark.parametrize(
        ("text", "label", "expected"),
        [
            ("a,class,b\n1,2,3\n4,5,6\n7,2,9\n8,5,1\n", None, "class"),  # a usual name
            ("a,kind,b\n1,x,3\n4,y,6\n7,x,9\n8,y,1\n", None, "kind"),  # the only words
            ("x,y,kind\n1,2,p\n4,5,q\n7,2,p\n8,5,q\n", None, "kind"),  # words before a column that is called y
            ("y,b,c\n1,2,3\n0,5,6\n1,2,9\n0,5,1\n", None, "y"),
            ("a,b,c\n1,2,0\n4,5,1\n7,2,0\n8,5,1\n", None, "c"),  # the last
            ("a,b,c\n1,2,0\n1,5,1\n2,2,0\n2,5,1\n", "a", "a"),
            ("a,b,c\n1,2,0\n1,5,1\n2,2,0\n2,5,1\n", "1", "a"),
            ("1,2,0\n1,5,1\n2,2,0\n2,5,1\n", "column 1", "column 1"),  # no names
            ("a;b;c\n1;2;0\n4;5;1\n7;2;0\n8;5;1\n", None, "c"),
            ("a\tb\tc\n1\t2\t0\n4\t5\t1\n\n7\t2\t0\n8\t5\t1\n", None, "c"),
        ],
    )
    def test_which_column_holds_the_labels(self, tmp_path: Path, text: str, label: str, expected: str) -> None:
        table = read_table(write(tmp_path, text), label)
        assert f"label {expected!r}" in table.about
        assert ("(guessed)" in table.about) == (label is None)
        assert expected not in table.columns
        assert len(table.columns) == 2
        assert len(table) == 4

    def test_numbers_as_classes_are_in_order(self, tmp_path: Path) -> None:
        rows = "".join(f"{k},{label}\n" for k, label in enumerate([10, 9, 2, 10, 9, 2]))
        assert read_table(write(tmp_path, rows)).classes == ("2", "9", "10")

    def test_another_table_for_a_model_that_knows_its_columns_and_classes(self, tmp_path: Path) -> None:
        other = write(tmp_path, "species,width,length,colour\nversicolor,3,6,9\n")
        table = read_table(other, "species", columns=["length", "width"], classes=["setosa", "versicolor"])
        assert table.x.tolist() == [[6, 3]]
        assert table.labels.tolist() == [1]

    @pytest.mark.parametrize(
        ("text", "options", "message"),
        [
            ("a,b,label\n1,red,x\n2,blue,y\n", {}, r"line 2: column 'b' holds 'red', which is not a finite number"),
            ("a,b,label\n1,2,x\n2,,y\n", {}, r"line 3: column 'b' holds nothing"),
            ("a,b,label\n1,nan,x\n2,1,y\n", {}, r"column 'b' holds 'nan'"),
            ("a,label\n1,x\n2,x\n", {}, r"column 'label': every label is 'x'. A classifier needs at least two classes"),
            ("a,label\n1,x\n2,y\n3\n", {}, r"line 4: 1 cells, but there are 2 columns"),
            ("a,label\n", {}, r"no rows below the names"),
            ("label\nx\ny\n", {}, r"one column"),
            ("a,a,label\n1,2,x\n2,3,y\n", {}, r"more than one column 'a'"),
            ("a,label\n1,x\n2,y\n", {"label": "lable"}, r"no column 'lable'. Did you mean 'label'"),
            ("a,b\n1.5,2.5\n2.5,3.5\n3.5,4.5\n", {}, r"column 'b' has 3 different values in 3 rows"),
            ("a,label\n1,x\n2,y\n", {"columns": ["b"]}, r"no column 'b', which the model reads"),
            ("a,label\n1,x\n2,z\n", {"classes": ["x", "y"]}, r"the class 'z'; the model learned x, y"),
            ("\n \n", {}, r"holds no rows"),
        ],
    )
    def test_what_is_wrong_is_named(self, tmp_path: Path, text: str, options: dict[str, str], message: str) -> None:
        with pytest.raises(DataError, match=message) as caught:
            read_table(write(tmp_path, text), **options)
        assert "\n" not in str(caught.value)


def idx(values: np.ndarray) -> bytes:
    head = struct.pack(">BBBB", 0, 0, 8, values.ndim) + struct.pack(f">{values.ndim}I", *values.shape)
    return head + values.astype(np.uint8).tobytes()


PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 4)).astype(np.uint8)
DIGITS = np.array([3, 1, 3, 1, 7, 7])


class TestImages:
    def test_idx_with_labels_beside_it(self, tmp_path: Path) -> None:
        (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(PIXELS)))
        (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(DIGITS)))
        images = read_images(tmp_path / "train-images-idx3-ubyte.gz")
        assert np.array_equal(images.x.numpy(), PIXELS[:, None])
        assert images.classes == ("1", "3", "7")
        assert images.labels.tolist() == [1, 0, 1, 0, 2, 2]

    @pytest.mark.parametrize("names", [("x", "y"), ("images", "labels")])
    def test_npz_with_channels_first_or_last(self, tmp_path: Path, names: tuple[str, str]) -> None:
        colours = np.stack([PIXELS, 255 - PIXELS, PIXELS // 2], axis=1)
        for shaped in (colours, np.moveaxis(colours, 1, 3)):
            np.savez(tmp_path / "pictures.npz", **{names[0]: shaped, names[1]: DIGITS})
            assert np.array_equal(read_images(tmp_path / "pictures.npz").x.numpy(), colours)

    def test_npy_with_a_file_of_labels(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", PIXELS / 255)
        np.save(tmp_path / "b.npy", np.array(list("xyxyzz")))
        images = read_images(tmp_path / "a.npy", tmp_path / "b.npy")
        assert images.classes == ("x", "y", "z")
        assert images.x.dtype == torch.float64

    def test_what_is_wrong_is_named(self, tmp_path: Path) -> None:
        np.save(tmp_path / "alone.npy", PIXELS)
        with pytest.raises(DataError, match=r"no labels.*data.label_file=FILE"):
            read_images(tmp_path / "alone.npy")
        np.save(tmp_path / "few.npy", DIGITS[:3])
        with pytest.raises(DataError, match=r"6 images need as many labels.* found \[3\]"):
            read_images(tmp_path / "alone.npy", tmp_path / "few.npy")
        np.save(tmp_path / "same.npy", np.zeros(6, dtype=int))
        with pytest.raises(DataError, match="every label is '0'"):
            read_images(tmp_path / "alone.npy", tmp_path / "same.npy")
        (tmp_path / "cut-images").write_bytes(idx(PIXELS)[:-1])
        (tmp_path / "cut-labels").write_bytes(idx(DIGITS))
        with pytest.raises(DataError, match="should have 136 bytes by its own head; it has 135"):
            read_images(tmp_path / "cut-images")
        np.savez(tmp_path / "odd.npz", a=PIXELS)
        with pytest.raises(DataError, match="holds a; an array x is needed, and labels y"):
            read_images(tmp_path / "odd.npz")
        np.savez(tmp_path / "wide.npz", x=np.zeros((2, 9, 9, 9)), y=np.arange(2))
        with pytest.raises(DataError, match="which axis"):
            read_images(tmp_path / "wide.npz")
        with pytest.raises(DataError, match=r"nowhere\.npz cannot be read"):
            read_images(tmp_path / "nowhere.npz")
        (tmp_path / "words").write_text("hello")
        with pytest.raises(DataError, match="it begins with 68 65 6c 6c"):
            read_images(tmp_path / "words", tmp_path / "same.npy")


class TestMadeUp:
    @pytest.mark.parametrize("task", TASKS)
    @given(seed=st.integers(0, 99), count=st.integers(2, 300))
    def test_a_seed_says_what_comes_and_classes_are_even(self, task: str, seed: int, count: int) -> None:
        points, again, other = (synthetic(task, count, each, 0.1) for each in (seed, seed, seed + 1))
        assert torch.equal(points.x, again.x)
        assert not torch.equal(points.x, other.x)
        assert points.x.shape == (count, 2)
        assert abs(2 * int(points.labels.sum()) - count) <= 1

    def test_classes_are_where_they_should_be(self) -> None:
        x, labels = (points := synthetic("xor", 500)).x, points.labels
        assert torch.equal((x[:, 0] * x[:, 1] < 0).long(), labels)
        x, labels = (points := synthetic("circles", 500)).x, points.labels
        assert torch.equal((x.norm(dim=1) > 0.6).long(), labels)
        x, labels = (points := synthetic("spirals", 500)).x, points.labels
        turned = 2 * torch.pi * 1.75 * (x.norm(dim=1) - 0.1) / 0.9 + torch.pi * labels  # the angle from the radius
        torch.testing.assert_close(torch.atan2(x[:, 1], x[:, 0]).cos(), turned.cos())
        torch.testing.assert_close(torch.atan2(x[:, 1], x[:, 0]).sin(), turned.sin())

    def test_wrong_sizes(self) -> None:
        with pytest.raises(OptionError, match="count must be at least 2"):
            synthetic("xor", 1)
        with pytest.raises(OptionError, match="noise must not be negative"):
            synthetic("xor", 5, noise=-1)
        with pytest.raises(OptionError, match=r"'spiral' does not exist. Did you mean 'spirals'"):
            synthetic("spiral", 5)


def test_every_example_once_in_an_epoch_and_in_another_order_in_the_next() -> None:
    examples = Labelled(torch.arange(23.0)[:, None], torch.arange(23) % 2, ("a", "b"))
    batches = LabelledBatches(examples, 5, seed=3)
    epochs = [torch.cat([batches.next().inputs for _ in range(batches.steps_per_epoch)]).flatten() for _ in range(2)]
    for epoch in epochs:
        assert epoch.sort().values.tolist() == list(range(23))
    assert not torch.equal(*epochs)
    batch = next(batches.one_pass())
    assert torch.equal(batch.inputs[:, 0, 0].long() % 2, batch.targets[:, 0])
    assert batch.tokens == 5


def test_ranks_share_the_rows_of_a_batch() -> None:
    examples = Labelled(torch.arange(7.0)[:, None], torch.arange(7) % 2, ("a", "b"))
    whole = LabelledBatches(examples, 3, seed=1)
    ranks = [LabelledBatches(examples, 3, seed=1, rank=k, world=2) for k in range(2)]
    for _ in range(4):
        batch, parts = whole.next(), [each.next() for each in ranks]
        assert torch.equal(torch.cat([part.inputs for part in parts]), batch.inputs)
        assert all(part.all_tokens == batch.tokens for part in parts)
