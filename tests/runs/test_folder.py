"""A run folder is made whole, is found again, and says what is wrong with one that is not."""

import errno
import json
import os
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from recurra.errors import OptionError, RunError
from recurra.runs.folder import RunFolder, list_runs

from .helpers import Killed, checkpoint, fail_at, failure, names, new_run

RECIPE = {"seed": 3, "model": {"cell": "gru", "hidden_size": 64}, "betas": [0.9, 0.999]}
VOCABULARY = {"kind": "word", "tokens": ["the", "NaN", "naïve", "\udc80"], "counts": {"z": 1, "a": 2}}


def test_what_is_made_is_found_again(tmp_path):
    path = tmp_path / "deep" / "a"
    made = RunFolder.create(path, RECIPE, VOCABULARY)
    assert names(path) - {".lock"} == {"recipe.json", "vocabulary.json", "manifest.json"}
    for folder in (made, RunFolder.open(path), RunFolder.open(str(path))):
        assert folder.path == path
        assert folder.recipe == RECIPE
        assert folder.vocabulary == VOCABULARY
        assert list(folder.vocabulary["counts"]) == ["z", "a"]  # in the order given
    assert json.loads((path / "recipe.json").read_text()) == RECIPE
    assert made.explain == path / "explain"
    assert made.report == path / "report.html"


def test_a_run_may_have_no_vocabulary(tmp_path):
    assert RunFolder.create(tmp_path / "a", RECIPE, None).vocabulary is None
    assert not (tmp_path / "a" / "vocabulary.json").exists()


def test_an_empty_folder_is_used(tmp_path):
    assert RunFolder.create(tmp_path, RECIPE).recipe == RECIPE


def test_a_folder_in_use_is_refused_and_left_as_it_is(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(RunError, match="is not empty, and not a run folder"):
        RunFolder.create(tmp_path, RECIPE)
    assert names(tmp_path) == {"thesis.tex"}
    (tmp_path / "thesis.tex").rename(tmp_path / "vocabulary.json")
    with pytest.raises(RunError, match="is not empty"):
        RunFolder.create(tmp_path, RECIPE, VOCABULARY)
    assert (tmp_path / "vocabulary.json").read_text() == "x"
    with pytest.raises(RunError, match="is a file"):
        RunFolder.create(tmp_path / "vocabulary.json", RECIPE)
    with pytest.raises(RunError, match="cannot be made: Not a directory"):
        RunFolder.create(tmp_path / "vocabulary.json" / "a", RECIPE)


def test_a_run_is_not_made_twice_but_resumed(tmp_path):
    path = tmp_path / "a"
    RunFolder.create(path, RECIPE, VOCABULARY, resume=True).save(checkpoint(4))
    with pytest.raises(RunError, match="holds a run already"):
        RunFolder.create(path, RECIPE, VOCABULARY)
    assert RunFolder.create(path, {**RECIPE, "betas": (0.9, 0.999)}, VOCABULARY, resume=True).load().step == 4
    with pytest.raises(RunError, match=r"with model\.cell='gru', and model\.cell='lstm' was asked"):
        RunFolder.create(path, {**RECIPE, "model": {**RECIPE["model"], "cell": "lstm"}}, VOCABULARY, resume=True)
    with pytest.raises(RunError, match="with seed=3, and seed=None was asked"):
        RunFolder.create(path, {k: v for k, v in RECIPE.items() if k != "seed"}, VOCABULARY, resume=True)
    with pytest.raises(RunError, match="another vocabulary"):
        RunFolder.create(path, RECIPE, None, resume=True)


def test_a_recipe_that_json_cannot_hold_leaves_nothing(tmp_path):
    for recipe in ({"path": tmp_path}, {"rate": float("nan")}):
        with pytest.raises((TypeError, ValueError)):
            RunFolder.create(tmp_path / "a", recipe)
    assert names(tmp_path) == set()


@pytest.fixture(params=["no data", "file", "folder"])
def data(request, tmp_path):
    """Data that a run keeps in its folder."""
    if request.param == "no data":
        return None
    made = tmp_path / "given" / ("data" if request.param == "folder" else "data.txt")
    (made if request.param == "folder" else made.parent).mkdir(parents=True)
    (made / "0.txt" if request.param == "folder" else made).write_text("once")
    return made


def test_create_is_whole_or_not_at_all(tmp_path, monkeypatch, data):
    """Killed at each point in turn: it is a run folder with all it should have, or it can be made anew."""
    kept = set() if data is None else {data.name}
    for point in range(1, 100):
        path = tmp_path / str(point)
        with monkeypatch.context() as patch:
            count = fail_at(patch, point, Killed())
            with suppress(Killed):
                RunFolder.create(path, RECIPE, VOCABULARY, data=data)
            if count() < point:
                break
        try:
            folder = RunFolder.open(path)
        except RunError:
            folder = RunFolder.create(path, RECIPE, VOCABULARY, data=data)
        assert (folder.recipe, folder.vocabulary) == (RECIPE, VOCABULARY)
        assert names(path) == {"recipe.json", "vocabulary.json", "manifest.json", ".lock"} | kept
        if data is not None:
            assert all(file.read_text() == "once" for file in [*(path / data.name).rglob("*")] or [path / data.name])
    assert point > 5


def test_data_of_somebody_else_is_not_written_over(tmp_path, data):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "data.txt").write_text("mine")
    with pytest.raises(RunError, match="is not empty, and not a run folder"):
        RunFolder.create(tmp_path / "a", RECIPE, VOCABULARY, data=data)
    assert (tmp_path / "a" / "data.txt").read_text() == "mine"


def test_a_recipe_names_data_that_its_folder_holds(tmp_path):
    folder = RunFolder.create(tmp_path / "a", {"data": {"path": "{run}/data.txt", "valid": 0.1}, "seed": 1})
    (tmp_path / "a").rename(tmp_path / "b")
    moved = RunFolder.open(tmp_path / "b")
    assert moved.recipe == folder.recipe
    assert moved.resolved_recipe() == {"data": {"path": str(tmp_path / "b" / "data.txt"), "valid": 0.1}, "seed": 1}


def test_create_that_fails_leaves_nothing(tmp_path, monkeypatch, data):
    for point in range(1, 100):
        path = tmp_path / str(point)
        with monkeypatch.context() as patch:
            count = fail_at(patch, point, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
            failed = failure(lambda path=path: RunFolder.create(path, RECIPE, VOCABULARY, data=data))
            if count() < point:
                break
        assert "cannot be made: No space left on device" in failed
        assert not path.exists()
    assert failed == ""
    assert point > 5


def test_a_folder_that_another_process_makes_meanwhile_is_left_to_it(tmp_path, monkeypatch):
    """Between the first look and the lock, somebody else has made the run."""

    @contextmanager
    def late(path):
        (path / "recipe.json").write_text('{"seed": 9}')
        yield

    monkeypatch.setattr("recurra.runs.folder.hold", late)
    with pytest.raises(RunError, match="holds a run already"):
        RunFolder.create(tmp_path / "a", RECIPE)
    assert RunFolder.open(tmp_path / "a").recipe == {"seed": 9}


def test_what_is_made_is_on_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    path = RunFolder.create(tmp_path / "a", RECIPE, VOCABULARY).path
    made = [path / "recipe.json", path / "vocabulary.json", path / "manifest.json", path, tmp_path]
    assert synced == [file.stat().st_ino for file in made]


def test_what_is_not_a_run_folder_is_named(tmp_path):
    with pytest.raises(RunError, match="does not exist"):
        RunFolder.open(tmp_path / "none")
    with pytest.raises(RunError, match=r"recipe\.json is missing"):
        RunFolder.open(tmp_path)
    file = tmp_path / "recipe.json"
    file.write_text("{")
    with pytest.raises(RunError, match="is a file"):
        RunFolder.open(file)
    with pytest.raises(RunError, match=r"recipe\.json is damaged"):
        RunFolder.open(tmp_path)
    file.write_text("[]")
    with pytest.raises(RunError, match="expected an object, found list"):
        RunFolder.open(tmp_path)
    file.write_text("{}")
    (tmp_path / "vocabulary.json").write_text("{]")
    with pytest.raises(RunError, match=r"vocabulary\.json is damaged"):
        RunFolder.open(tmp_path).vocabulary  # noqa: B018


def test_a_folder_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", refuse)
        with pytest.raises(RunError, match="cannot be made: Permission denied"):
            RunFolder.create(tmp_path, RECIPE)
        with pytest.raises(RunError, match="cannot be read: Permission denied"):
            list_runs(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", refuse)
        said = failure(lambda: RunFolder.open(tmp_path))
        listed = list_runs(tmp_path)
    assert "cannot be opened: Permission denied" in said
    assert listed == []


def test_runs_are_listed_newest_first(tmp_path):
    for k, name in enumerate(("b", "c", "a")):
        file = new_run(tmp_path / name).path / "recipe.json"
        os.utime(file, ns=(0, 1000 * k))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "recipe.json").write_text("{")
    assert [run.path.name for run in list_runs(tmp_path)] == ["a", "c", "b"]
    assert list_runs(tmp_path / "none") == []


def test_a_checkpoint_that_does_not_exist(tmp_path):
    folder = new_run(tmp_path / "a")
    assert not folder.has()
    with pytest.raises(RunError, match="has no last checkpoint yet"):
        folder.load()
    folder.save(checkpoint(1))
    assert folder.has()
    assert not folder.has("best")
    with pytest.raises(RunError, match="has no best checkpoint yet"):
        folder.load("best")
    with pytest.raises(OptionError, match=r"checkpoint 'lst' does not exist\. Did you mean 'last'"):
        folder.load("lst")


def test_a_validation_that_is_missing_at_the_end_is_named(tmp_path):
    """The row of the step is still there, and the one with its validation is not."""
    made = RunFolder.create(tmp_path / "a", RECIPE)
    made.append([{"step": 1, "loss": 1.0}, {"step": 2, "loss": 0.5}, {"step": 2, "valid": 0.4}])
    made.save(checkpoint(step=2), best=True)
    whole = RunFolder.open(tmp_path / "a")
    assert whole.glance()[-1]["valid"] == 0.4
    assert not whole.damaged
    file = tmp_path / "a/metrics.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    for look in (RunFolder.glance, RunFolder.look_over):
        cut = RunFolder.open(tmp_path / "a")
        look(cut)
        (damage,) = cut.damaged
        assert damage.found == "the row with the validation of step 2, that of the best checkpoint, is missing"


@pytest.mark.parametrize("why", [1.5, ["over"], True])
def test_why_training_ended_is_a_text(why):
    with pytest.raises(RunError, match="why training ended is no text"):
        _ = replace(checkpoint(step=2), facts={"done": why}).done
