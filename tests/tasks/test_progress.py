"""What a person sees while a network learns, all of it on standard error; and TensorBoard, where it is installed."""

import importlib.util
import io
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

from recurra.cli.main import run
from recurra.tasks import progress
from recurra.tasks.progress import Lines, Live, Notebook, Silent, make_display
from recurra.training.events import Step, Validated
from tests.cli.test_train import files, refused

STEP = Step(3, 1.23456, 0.789, 1e-3, 64)
SKIPPED = Step(4, float("nan"), float("nan"), 1e-3, 64, skipped=True)
VALID = Validated(3, 0.98765, is_best=True)
GLIMPSE = "[b]x[/b] :smile: [/red]\nend \\"


def small(*extra: str) -> list[str]:
    settings = ["model.hidden_size=4", "training.steps=3", "training.batch_size=2", "engine=eager", "data.length=4"]
    return ["train", "long-memory", *settings, "--out", "run", *extra]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestLines:
    def test_everything_goes_to_standard_error(self, capsys: pytest.CaptureFixture[str]) -> None:
        with Lines(10, "tokens") as display:
            display.say("hello [b]you[/b]")
            display.step(STEP, 12345.6)
            display.validated(VALID)
            display.glimpse(GLIMPSE)
        out, err = capsys.readouterr()
        assert out == ""
        assert err.splitlines() == [
            "hello [b]you[/b]",
            "step 3/10  loss 1.2346  gradient 0.789  12,346 tokens/s  0 s left",
            "step 3  validation 0.9877 (best)",
            "  | [b]x[/b] :smile: [/red]",
            "  | end \\",
        ]

    def test_a_line_every_two_seconds_and_one_for_each_step_that_was_skipped(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = [100.0]
        monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
        display = Lines(100, "tokens")
        for step in range(1, 21):
            clock[0] += 0.5
            display.step(Step(step, 1.0, 1.0, 1e-3, 64, skipped=step == 7), 10.0)
        lines = capsys.readouterr().err.splitlines()
        assert [int(re.findall(r"\d+", line)[0]) for line in lines] == [1, 5, 7, 11, 15, 19]
        assert [("SKIPPED" in line) for line in lines] == [False, False, True, False, False, False]
        assert lines[-1].endswith("38 s left")  # 81 steps at 9 s for 19

    def test_a_validation_that_is_not_the_best(self, capsys: pytest.CaptureFixture[str]) -> None:
        Lines(10, "tokens").validated(Validated(3, 0.5, is_best=False))
        assert capsys.readouterr().err == "step 3  validation 0.5000\n"


class TestLive:
    def shown(self, width: int = 140) -> tuple[Live, io.StringIO]:
        file = io.StringIO()
        return Live(10, "tokens", Console(file=file, force_terminal=True, width=width)), file

    def plain(self, file: io.StringIO) -> str:
        """What is on the screen, without colours and movements of the cursor."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue())

    def test_the_figures_of_the_last_step_and_validation(self) -> None:
        display, file = self.shown()
        with display:
            display.step(STEP, 12345.6)
            display.validated(VALID)
        text = self.plain(file)
        assert "step 3  validation 0.9877 (best)" in text
        last = text.splitlines()[-1]
        for figure in ("3/10", "loss 1.2346", "valid 0.9877", "gradient 0.79", "12,346 tokens/s"):
            assert figure in last
        assert "skipped" not in last

    def test_steps_that_were_skipped_are_counted(self) -> None:
        display, file = self.shown()
        with display:
            display.step(STEP, 1.0)
            display.step(SKIPPED, 1.0)
            display.step(SKIPPED, 1.0)
        assert "2 skipped" in self.plain(file)

    def test_a_glimpse_is_printed_as_it_is(self) -> None:
        display, file = self.shown()
        with display:
            display.glimpse(GLIMPSE)
        text = self.plain(file)
        assert "a glimpse" in text
        assert "[b]x[/b] :smile: [/red]" in text
        assert "end \\ " in text

    def test_a_remark_is_printed_as_it_is(self) -> None:
        display, file = self.shown()
        with display:
            display.say("hello [b]you[/b]")
        assert "hello [b]you[/b]" in self.plain(file)

    def test_a_narrow_terminal(self) -> None:
        display, file = self.shown(width=50)
        with display:
            display.step(STEP, 1.0)
            display.glimpse("x" * 200)
        assert max(map(len, self.plain(file).splitlines())) <= 50

    def test_it_ends_with_an_error_too(self) -> None:
        display, file = self.shown()
        with pytest.raises(ZeroDivisionError), display:
            raise ZeroDivisionError
        assert file.getvalue().endswith("\x1b[?25h") or "\x1b[?25h" in file.getvalue(), "the cursor is shown again"


class TestWhichOne:
    def test_lines_where_standard_error_is_no_terminal_and_they_are_asked_for(self) -> None:
        assert type(make_display(10, "tokens", "lines")) is Lines
        assert type(make_display(10, "tokens")) is Silent

    def test_a_bar_on_a_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert type(make_display(10, "tokens")) is Live
        assert type(make_display(10, "tokens", "lines")) is Live
        assert type(make_display(10, "tokens", "none")) is Silent

    def test_nothing_on_ranks_that_are_not_the_first(self, capsys: pytest.CaptureFixture[str]) -> None:
        display = make_display(10, "tokens", "none")
        assert type(display) is Silent
        with display:
            display.step(STEP, 1.0)
            display.validated(VALID)
            display.say("hello")
            display.glimpse("x")
        assert capsys.readouterr() == ("", "")

    def test_a_run_with_a_bar_prints_nothing_on_standard_output(
        self, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert run(small()) == 0
        out, err = capsys.readouterr()
        assert out == ""
        assert "3/3" in err
        assert "3 steps made" in err


class TestTensorBoard:
    def test_without_it_nothing_is_written(
        self, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)  # as if it were not installed
        assert "recurra[log]" in refused(small("--tensorboard"), capsys)
        assert not (here / "run").exists()

    def test_without_it_a_run_that_is_resumed_stays_as_it_is(
        self, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert run(small()) == 0
        before = files(here)
        monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
        assert "recurra[log]" in refused(["train", "--resume", "run", "--tensorboard"], capsys)
        assert files(here) == before

    @pytest.mark.skipif(importlib.util.find_spec("tensorboard") is not None, reason="it is installed")
    def test_where_it_is_truly_missing(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "recurra[log]" in refused(small("--tensorboard"), capsys)
        assert not (here / "run").exists()

    @pytest.mark.filterwarnings("default")  # of the package, which is not ours
    def test_its_files_appear(self, here: Path) -> None:
        pytest.importorskip("tensorboard")
        assert run(small("--tensorboard")) == 0
        assert [file for file in (here / "run/tensorboard").iterdir() if "tfevents" in file.name]

    def test_every_number_of_a_row_is_added_at_its_step(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from recurra.tasks import tensorboard

        added: list[tuple[object, ...]] = []

        class Writer:
            def __init__(self, folder: str):
                added.append((folder,))

            def add_scalar(self, *row: object) -> None:
                added.append(row)

            def close(self) -> None:
                added.append(("closed",))

        monkeypatch.setattr(tensorboard, "find_writer", lambda: Writer)
        board = tensorboard.Board(tmp_path)
        board.add({"step": 7, "loss": 0.5, "note": "x"})
        board.add({"step": 8, "valid": 2.0})
        board.close()
        assert added == [(str(tmp_path),), ("loss", 0.5, 7), ("valid", 2.0, 8), ("closed",)]


def test_a_notebook_has_one_block_that_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is trained, the bar at its last step, and how it ended."""
    display = pytest.importorskip("IPython.display")
    blocks: list[str] = []

    class Handle:
        def update(self, block: object) -> None:
            blocks[-1] = block.data  # type: ignore[attr-defined]

    def show(block: object, display_id: bool) -> Handle:
        blocks.append(block.data)  # type: ignore[attr-defined]
        return Handle()

    monkeypatch.setattr(display, "display", show)
    with Notebook(10, "tokens") as notebook:
        notebook.say("text: a <file>")
        for step in range(1, 11):
            notebook.step(Step(step, 2.0, 1.0, 0.1, 5), 100.0)
        notebook.validated(Validated(10, 1.5, True))
        notebook.say("10 steps made.")
    (block,) = blocks
    first, bar, last = block.removeprefix("<pre>").removesuffix("</pre>").split("\n")
    assert first == "text: a &lt;file&gt;"
    assert bar == "━" * 30 + " 10/10  loss 2.0000  100 tokens/s  valid 1.5000"
    assert last == "10 steps made."
