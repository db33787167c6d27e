"""`recurra train`, `evaluate`, `sample`, `runs`, `recipes`: a run from end to end, killed, stopped, and asked wrongly."""

import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from recurra.cli.main import run
from recurra.runs.manifest import make_manifest
from recurra.training.evaluation import TIE
from recurra.training.loop import Trainer

SMALL = [
    "model.hidden_size=12",
    "model.embedding_size=8",
    "model.dropout=0.1",
    "training.batch_size=4",
    "training.truncation=every:8",
    "training.warmup=2",
    "engine=eager",
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a small text and a list of names."""
    monkeypatch.chdir(tmp_path)
    words = random.Random(0)
    text = " ".join(words.choice(["the", "cat", "sat", "on", "a", "mat.\n"]) for _ in range(500))
    (tmp_path / "text.txt").write_text(text + "\n")
    names = ["".join(words.choice("abcde") for _ in range(words.randint(2, 6))) for _ in range(80)]
    (tmp_path / "names.txt").write_text("\n".join(names) + "\n")
    return tmp_path


def train(*extra: str, out: str = "run", steps: int = 12) -> list[str]:
    assignments = ["data.path=text.txt", *SMALL, f"training.steps={steps}"]
    return [
        "train",
        "text",
        *assignments,
        "training.validate_every=6",
        "training.save_every=4",
        *extra,
        "--out",
        out,
    ]


def files(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def outcome(folder: Path) -> dict[str, bytes]:
    """What two runs with the same numbers share, byte for byte."""
    wanted = [
        "metrics.jsonl",
        "recipe.json",
        *(f"checkpoints/{which}/weights.safetensors" for which in ("last", "best")),
    ]
    return {name: (folder / name).read_bytes() for name in wanted}


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a command fails with."""
    capsys.readouterr()
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("recurra: ")
    assert err.count("\n") == 1
    return err


class TestFromEndToEnd:
    def test_train_evaluate_sample_runs(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(train(steps=60)) == 0
        out, err = capsys.readouterr()
        assert out == ""
        assert "60 steps made" in err
        assert "recurra train --resume run" in err
        rows = [json.loads(line) for line in (here / "run/metrics.jsonl").read_text().splitlines()]
        losses = [row["loss"] for row in rows if "loss" in row]
        assert len(losses) == 60
        assert losses[-1] < losses[0] - 0.3
        assert [row["step"] for row in rows if "valid" in row] == list(range(6, 61, 6))

        assert run(["evaluate", "run", "--json"]) == 0
        out, _ = capsys.readouterr()
        found = json.loads(out)
        assert found["data"] == "validation"
        predicted, network, markov, *_ = found["scores"].values()
        assert "markov order 6 alone" in found["scores"]  # sixty steps are few: the network breaks ties only
        best = predicted["nats"] + TIE * network["nats"]
        assert best == pytest.approx(min(row["valid"] for row in rows if "valid" in row), rel=1e-7)
        assert network["perplexity"] == pytest.approx(math.exp(network["nats"]))
        assert network["bits"] == pytest.approx(network["nats"] / math.log(2))
        assert 0 < markov["nats"] < math.log(20)
        assert predicted["nats"] <= min(network["nats"], markov["nats"] + 1e-3)

        assert run(["evaluate", "run", "--no-baselines"]) == 0
        out, _ = capsys.readouterr()
        assert "lstm-12" in out
        assert "\nmarkov order 6 " not in out.replace("markov order 6 alone", "")

        assert run(["sample", "run", "--prime", "the", "--length", "20", "--seed", "3"]) == 0
        first, _ = capsys.readouterr()
        assert run(["sample", "run", "--prime", "the", "--length", "20", "--seed", "3", "--json"]) == 0
        second, _ = capsys.readouterr()
        drawn = json.loads(second)
        assert drawn["prime"] == "the"
        assert len(drawn["text"]) == 20
        assert first == "the" + drawn["text"] + "\n"
        assert run(["sample", "run", "--prime", "the", "--length", "20", "--seed", "4"]) == 0
        assert capsys.readouterr().out != first

        assert run(["runs", ".", "--json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)["runs"]
        assert (row["run"], row["recipe"], row["step"]) == ("run", "text", 60)
        assert row["best_valid"] == pytest.approx(best, rel=1e-7)

    def test_runs_of_a_folder_that_is_none(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "nowhere is not there" in refused(["runs", "nowhere"], capsys)
        (here / "file").write_text("")
        assert "file is a file" in refused(["runs", "file", "--json"], capsys)

    def test_json_prints_one_object_and_nothing_else(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run([*train(steps=6), "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert {k: result[k] for k in ("run", "step", "failed", "skipped", "why")} == {
            "run": "run",
            "step": 6,
            "failed": False,
            "skipped": 0,
            "why": "6 steps made",
        }
        assert 0 < result["valid"] < 5

    def test_another_text_is_evaluated_whole(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(train(steps=4)) == 0
        (here / "other.txt").write_text("the mat sat on the cat. " * 5)
        capsys.readouterr()
        assert run(["evaluate", "run", "--data", "other.txt", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["data"] == "other.txt"
        assert found["tokens"] == 24 * 5 - 1

    def test_sequences_end_by_themselves(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        small = [each for each in SMALL if "truncation" not in each]
        command = ["train", "names", "data.path=names.txt", *small, "training.steps=60", "training.learning_rate=0.02"]
        assert run([*command, "--out", "run"]) == 0
        capsys.readouterr()
        lengths = []
        for seed in range(8):
            assert run(["sample", "run", "--length", "200", "--seed", str(seed), "--json"]) == 0
            lengths.append(len(json.loads(capsys.readouterr().out)["text"]))
        assert sum(length < 100 for length in lengths) >= 6
        assert run(["evaluate", "run", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["data"] == "test"

    def test_averaged_weights_are_what_is_sampled_and_evaluated(
        self, here: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run([*train("training.average=ema:0.9", "model.combine=none"), "--json"]) == 0
        valid = json.loads(capsys.readouterr().out)["valid"]
        assert run(["evaluate", "run", "--json"]) == 0
        scores = json.loads(capsys.readouterr().out)["scores"]
        assert scores["lstm-12"]["nats"] == pytest.approx(valid, rel=1e-6)

    def test_the_same_seed_gives_the_same_run(self, here: Path) -> None:
        assert run(train(out="a")) == run(train(out="b")) == run(train("seed=1", out="c")) == 0
        assert outcome(here / "a") == outcome(here / "b")
        assert (here / "a/metrics.jsonl").read_bytes() != (here / "c/metrics.jsonl").read_bytes()

    def test_recipes(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["recipes", "--json"]) == 0
        assert {"python-source", "text", "names"} <= json.loads(capsys.readouterr().out).keys()
        assert run(["recipes", "text", "--json"]) == 0
        settings = json.loads(capsys.readouterr().out)
        assert settings["training.truncation"]["default"] == "every:128"
        assert all(row["about"] for row in settings.values())
        assert run(["recipes", "text"]) == 0
        assert "training.clip_norm" in capsys.readouterr().out

    def test_minutes(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run([*train(steps=100000), "--minutes", "0.001", "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert result["why"].endswith("steps made; the schedule of 100000 was fitted into the time")
        assert 0 < result["step"] < 100000
        assert run(["sample", "run", "--length", "3"]) == 0


def start(arguments: list[str]) -> "subprocess.Popen[bytes]":
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", "from recurra.cli.main import main; main()", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def wait_for_rows(process: "subprocess.Popen[bytes]", file: Path, rows: int) -> None:
    deadline = time.monotonic() + 60
    while not file.exists() or file.read_bytes().count(b"\n") < rows:
        assert process.poll() is None, "the run ended before it could be stopped"
        assert time.monotonic() < deadline
        time.sleep(0.0005)


class TestStopped:
    STEPS = 100

    def command(self, out: str) -> list[str]:
        return train("training.save_every=20", "training.validate_every=15", out=out, steps=self.STEPS)

    @pytest.mark.slow
    def test_killed_at_any_moment_it_resumes_to_the_same_bytes(self, here: Path) -> None:
        assert run(self.command("whole")) == 0
        moments = [3, *random.Random(time.time_ns()).sample(range(25, 80), 1)]  # before the first save, and later
        for rows in moments:
            out = f"killed-{rows}"
            process = start(self.command(out))
            wait_for_rows(process, here / out / "metrics.jsonl", rows)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            assert process.returncode == -signal.SIGKILL
            assert run(["train", "--resume", out]) == 0
            assert outcome(here / out) == outcome(here / "whole"), f"killed after {rows} rows"

    def test_sigterm_saves_and_exits_well(self, here: Path) -> None:
        process = start([*self.command("stopped"), "--json"])
        wait_for_rows(process, here / "stopped/metrics.jsonl", 5)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        result = json.loads(out)
        assert result["why"] == "stopped by SIGTERM, saved"
        assert 5 <= result["step"] < self.STEPS
        saved = json.loads((here / "stopped/metrics.jsonl").read_text().splitlines()[-1])
        assert saved["step"] == result["step"]
        assert (here / "stopped/checkpoints/last/weights.safetensors").exists()

    @pytest.mark.parametrize("step", [5, 6, 12], ids=["between", "at an evaluation", "at the end"])
    def test_stopped_by_a_signal_it_resumes_to_the_same_bytes(
        self, here: Path, monkeypatch: pytest.MonkeyPatch, step: int
    ) -> None:
        assert run(train(out="whole")) == 0
        advance = Trainer.advance

        def stop(self: Trainer, batch: object) -> None:
            advance(self, batch)
            if self.step == step:
                signal.raise_signal(signal.SIGINT)

        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "advance", stop)
            assert run(train()) == 0
        assert run(["train", "--resume", "run"]) == 0
        assert outcome(here / "run") == outcome(here / "whole")

    def test_a_finished_run_stays_as_it_is(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(train()) == 0
        before = outcome(here / "run")
        assert run(["train", "--resume", "run", "--json"]) == 0
        assert outcome(here / "run") == before

    def test_a_run_that_fails_says_so_with_exit_code_1(
        self, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("recurra.training.loop.clip_gradients", lambda *how: torch.tensor(math.nan))
        assert run([*train(), "--json"]) == 1
        out, err = capsys.readouterr()
        result = json.loads(out)
        assert result["failed"]
        assert result["skipped"] == 5
        assert "SKIPPED" in err


def test_what_comes_next_can_be_done(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["training.steps=2", "model.hidden_size=4", "data.length=6", "engine=eager"]
    for recipe, suggested in (("flip-flop", False), ("parity", True)):
        assert run(["train", recipe, *small, "--out", recipe]) == 0
        assert (f"recurra automaton {recipe}" in capsys.readouterr().err) == suggested


class TestRefused:
    """Exit code 2, one line on standard error, nothing on standard output, nothing written."""

    @pytest.mark.parametrize(
        ("extra", "words"),
        [
            (["data.path=missing.txt"], "does not exist"),
            (["data.path=empty.txt"], "empty"),
            (["data.path=binary.bin"], "binary.bin"),
            (["data.path=short.txt"], "at least 33 tokens"),
            (["data.path=narrow.txt", "training.batch_size=1", "training.truncation=every:2"], "at least 2 tokens"),
            (["model.hiden_size=3"], "model.hidden_size"),
            (["training.steps=many"], "whole number"),
            (["training.truncation=evry:3"], "'every'"),
            (["training.truncation=none"], "every:K"),
            (["training.optimiser=adamx"], "'adam'"),
            (["model.cell=lstn"], "'lstm'"),
            (["model.layers=0"], "at least 1"),
            (["model.tied=true"], "embedding_size"),
            (["engine=fusd"], "'fused'"),
            (["dtype=float16"], "float32"),
            (["steps"], "KEY=VALUE"),
            (["device=banana"], "device"),
            (["training.learning_rate=-1"], "learning_rate"),
            (["training.l2=-1"], "l2"),
            (["training.clip_norm=-1"], "clip_norm"),
            (["model.embedding_size=-3"], "embedding_size"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_training(self, here: Path, capsys: pytest.CaptureFixture[str], extra: list[str], words: str) -> None:
        (here / "empty.txt").write_text("")
        (here / "binary.bin").write_bytes(bytes(range(256)) * 10)
        (here / "short.txt").write_text("too short")
        (here / "narrow.txt").write_text("abcdefgh")
        before = files(here)
        assert words in refused(train(*extra), capsys)
        assert files(here) == before
        assert not (here / "run").exists()

    def test_no_cuda(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        if torch.cuda.is_available():
            pytest.skip("there is one")
        assert "cuda" in refused(train("device=cuda"), capsys)

    def test_an_unknown_recipe(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "Did you mean 'text'" in refused(["train", "txt"], capsys)
        assert "Did you mean 'names'" in refused(["recipes", "name"], capsys)
        assert not (here / "runs").exists()

    def test_sequences_need_a_file(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "data.path=FILE" in refused(["train", "names"], capsys)

    def test_a_folder_that_is_in_use(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (here / "run").mkdir()
        (here / "run/mine.txt").write_text("precious")
        refused(train(), capsys)
        assert files(here / "run") == {"mine.txt": b"precious"}

    def test_resume_with_settings(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(train()) == 0
        before = files(here / "run")
        assert "no settings" in refused(["train", "--resume", "run", "training.steps=20"], capsys)
        assert "no --out" in refused(["train", "--resume", "run", "--out", "other"], capsys)
        assert files(here / "run") == before

    @pytest.mark.parametrize("command", [["train", "--resume"], ["evaluate"], ["sample"]], ids=" ".join)
    def test_what_is_not_a_run_folder(self, here: Path, capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
        (here / "plain").mkdir()
        assert "recipe.json is missing" in refused([*command, "plain"], capsys)
        assert "does not exist" in refused([*command, "nowhere"], capsys)
        assert "is a file" in refused([*command, "text.txt"], capsys)
        assert files(here / "plain") == {}

    @pytest.mark.parametrize("command", [["train", "--resume"], ["evaluate"], ["sample"]], ids=" ".join)
    def test_a_checkpoint_of_another_model(
        self, here: Path, capsys: pytest.CaptureFixture[str], command: list[str]
    ) -> None:
        assert run(train()) == 0
        recipe = here / "run/recipe.json"
        recipe.write_text(recipe.read_text().replace('"hidden_size": 12', '"hidden_size": 16'))
        before = outcome(here / "run")
        refused([*command, "run"], capsys)
        assert outcome(here / "run") == before

    def test_a_run_on_a_text_that_has_changed(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(train()) == 0
        before = outcome(here / "run")
        (here / "text.txt").write_text("the cat " * 400)
        assert "it has changed since" in refused(["train", "--resume", "run"], capsys)
        assert outcome(here / "run") == before

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--prime", "Ω"], "Ω"),
            (["--temperature", "0"], "temperature"),
            (["--top-k", "0"], "top_k"),
            (["--top-p", "1.5"], "top_p"),
            (["--length", "0"], "length"),
            (["--stop-probability", "2"], "stop"),
        ],
        ids=lambda value: value[0] if isinstance(value, list) else "",
    )
    def test_sampling(self, here: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str) -> None:
        assert run(train(steps=4)) == 0
        assert words in refused(["sample", "run", *options], capsys)

    def test_resume_of_an_unsound_recipe(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(train()) == 0
        recipe = here / "run/recipe.json"
        recipe.write_text(recipe.read_text().replace('"hidden_size"', '"hiden_size"'))
        before = outcome(here / "run")
        assert "recipe.json is damaged" in refused(["train", "--resume", "run"], capsys)
        manifest = make_manifest(here / "run", ["recipe.json", "vocabulary.json"])
        (here / "run/manifest.json").write_bytes(manifest)
        assert run(["train", "--resume", "run"]) == 2
        assert "hidden_size" in capsys.readouterr().err.splitlines()[-1]
        assert outcome(here / "run") == before

    def test_a_disk_that_is_full(self, here: Path) -> None:
        """Files may grow to 30 kB and no further: the recipe fits, a checkpoint does not."""

        def small_disk() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))

        command = [sys.executable, "-m", "recurra", *train("model.hidden_size=64")]
        done = subprocess.run(command, preexec_fn=small_disk, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        last = done.stderr.splitlines()[-1]
        assert last.startswith("recurra: ")
        assert "cannot be saved" in last
        left = (
            [file.name for file in (here / "run/checkpoints").rglob("*")] if (here / "run/checkpoints").exists() else []
        )
        assert left == []

    def test_a_folder_that_may_not_be_read(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        if os.geteuid() == 0:
            pytest.skip("root may read everything")
        (here / "closed").mkdir(mode=0o000)
        try:
            assert "closed" in refused(train("data.path=closed"), capsys)
            assert "closed" in refused(train(out="closed/run"), capsys)
        finally:
            (here / "closed").chmod(0o700)

    def test_sampling_before_the_first_checkpoint(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(train(steps=4)) == 0
        for folder in (here / "run/checkpoints").iterdir():
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()
        assert run(["evaluate", "run"]) == 2
        assert "checkpoints: it is missing, and the metrics go to step 4" in capsys.readouterr().err
        (here / "run/metrics.jsonl").unlink()
        assert "no checkpoint yet" in refused(["sample", "run"], capsys)


def test_weights_are_safetensors(here: Path) -> None:
    assert run(train(steps=4)) == 0
    weights = load_file(here / "run/checkpoints/last/weights.safetensors")
    assert weights["output.weight"].shape[1] == 12
