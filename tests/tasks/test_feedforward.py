"""The recipe feedforward: spirals learned, lines that fail on them, tables and images from files, runs that resume and stop."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recurra.cli.main import run
from recurra.errors import OptionError
from recurra.tasks.catalogue import find_recipe
from recurra.tasks.feedforward import FeedforwardTask, classification_loss, most_frequent, score
from recurra.tasks.train import open_run
from recurra.training.events import Finished, Step
from tests.cli.test_train import files, outcome, refused

SMALL = [
    "training.steps=20",
    "training.batch_size=16",
    "training.warmup=2",
    "training.validate_every=10",
    "training.save_every=5",
    "data.count=100",
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_task(*settings: str) -> FeedforwardTask:
    made = find_recipe("feedforward").configure(settings)
    assert isinstance(made, FeedforwardTask)
    return made


def learned(made: FeedforwardTask) -> dict[str, dict[str, float]]:
    """Test scores after training."""
    trainer = made.trainer()
    *_, last = trainer.events()
    assert isinstance(last, Finished)
    assert not last.failed
    return made.evaluate(trainer.evaluated).scores


@pytest.mark.parametrize("seed", [0, 1])
def test_the_recipe_learns_spirals_and_a_line_cannot(seed: int) -> None:
    network, counted = learned(make_task(f"seed={seed}")).values()
    assert network["accuracy"] >= 0.99
    assert counted == {"nats": pytest.approx(math.log(2), abs=1e-3), "accuracy": 0.5}
    line = learned(make_task("model.kind=linear", "training.steps=300", f"seed={seed}"))["linear"]
    assert line["accuracy"] < 0.7


@pytest.mark.parametrize(
    ("task", "settings", "least"),
    [
        ("circles", ["model.kind=basis", "model.degree=2"], 0.99),  # x² + y² is one of its functions
        ("xor", ["model.kind=basis", "model.degree=2"], 0.96),
        ("xor", ["model.kind=basis", "model.basis=radial"], 0.95),
        ("circles", ["model.kind=basis", "model.basis=learned", "model.centres=10"], 0.98),
        ("circles", ["model.activation=tanh", "model.layers=1", "model.hidden_size=12"], 0.98),
        ("circles", ["model.activation=softplus", "model.residual=true"], 0.98),
        ("circles", ["model.activation=sigmoid", "model.dropout=0.1"], 0.98),
    ],
)
def test_other_models_on_other_tasks(task: str, settings: list[str], least: float) -> None:
    made = learned(make_task(f"data.task={task}", "training.steps=400", "training.learning_rate=0.03", *settings))
    assert next(iter(made.values()))["accuracy"] > least


@pytest.mark.parametrize("task", ["circles", "xor"])
def test_layers_that_are_linear_are_a_line(task: str) -> None:
    made = learned(make_task(f"data.task={task}", "model.activation=linear", "training.steps=200"))
    assert next(iter(made.values()))["accuracy"] < 0.75


def bars(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two channels; a bar lies in one or stands in the other, at a random place: class 0, 1, or 2 for both."""
    random = np.random.default_rng(seed)
    x = random.integers(0, 60, (count, 2, 8, 8)).astype(np.uint8)
    y = random.integers(0, 3, count)
    for k in range(count):
        if y[k] != 1:
            x[k, 0, random.integers(8)] = 255
        if y[k] != 0:
            x[k, 1, :, random.integers(8)] = 255
    return x, y


@pytest.mark.parametrize("pooling", ["max", "average"])
def test_convolutions_learn_images_of_two_channels(here: Path, pooling: str) -> None:
    x, y = bars(600)
    np.savez("bars.npz", x=x, y=y)
    settings = ["data.path=bars.npz", "model.kind=convolution", "model.channels=8,8", f"model.pooling={pooling}"]
    made = make_task(*settings, "training.steps=150", "training.batch_size=32")
    network, counted = learned(made).values()
    assert network["accuracy"] > 0.95
    assert counted["accuracy"] < 0.5
    assert "600 images of 2×8×8" in made.about_data


def table(here: Path, rows: int = 120, name: str = "flowers.csv") -> Path:
    random = np.random.default_rng(rows)
    kinds = ["rose", "lily", "aster"]
    lines = ["width,height,kind,weight"]
    for k in range(rows):
        a, b, c = random.normal(size=3) * [0.1, 10, 100] + np.array([0.5, 30, 900]) * (k % 3)
        lines.append(f"{a},{b},{kinds[k % 3]},{c}")
    (here / name).write_text("\n".join(lines) + "\n")
    return here / name


def test_a_table_from_end_to_end(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(here)
    assert run(["train", "feedforward", "data.path=flowers.csv", "training.steps=200", "--out", "run"]) == 0
    err = capsys.readouterr().err
    assert "label 'kind' (guessed)" in err
    assert "sample" not in err
    assert run(["evaluate", "run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["data"] == "test"
    assert found["tokens"] == 18
    network, counted = found["scores"].values()
    assert network["accuracy"] > 0.9
    assert counted["accuracy"] < 0.6
    table(here, 60, "more.csv")
    assert run(["evaluate", "run", "--data", "more.csv", "--json"]) == 0
    more = json.loads(capsys.readouterr().out)
    assert more["tokens"] == 60
    assert next(iter(more["scores"].values()))["accuracy"] > 0.9
    (here / "flowers.csv").unlink()
    opened_run = open_run(here / "run")
    opened, model = opened_run.task, opened_run.model  # the model is opened where its data no longer is
    assert opened.vocabulary["classes"] == ["aster", "lily", "rose"]
    assert opened.vocabulary["columns"] == ["width", "height", "weight"]
    assert model(torch.zeros(1, 3)).shape == (1, 3)


@pytest.mark.parametrize("kind", ["layers", "basis"])
def test_a_run_that_is_stopped_and_resumed_is_the_same_run(here: Path, kind: str, cut_off: Any) -> None:
    extra = {"layers": ["model.dropout=0.2"], "basis": ["model.kind=basis", "model.basis=learned", "model.centres=7"]}
    settings = [*SMALL, *extra[kind]]
    assert run(["train", "feedforward", *settings, "--out", "whole"]) == 0
    with cut_off():
        assert run(["train", "feedforward", *settings, "--out", "parts"]) == 0
    assert len((here / "parts/metrics.jsonl").read_text().splitlines()) < 5
    assert run(["train", "--resume", "parts"]) == 0
    assert outcome(here / "parts") == outcome(here / "whole")


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_other_numbers(dtype: str) -> None:
    made = learned(make_task("data.task=circles", "training.steps=200", f"dtype={dtype}"))
    assert next(iter(made.values()))["accuracy"] > 0.97


def test_training_stops_where_the_gradient_is_small() -> None:
    """All points in every batch: the norm is that of ∇J over all of them."""
    settings = ["data.task=xor", "model.kind=linear", "data.count=200", "training.batch_size=200"]
    descent = ["training.optimiser=sgd", "training.momentum=0", "training.clip_norm=none", "training.learning_rate=0.5"]
    made = make_task(
        *settings, *descent, "training.schedule=constant", "training.stop_at_gradient=1e-3", "dtype=float64"
    )
    trainer = made.trainer()
    events = list(trainer.events())
    norms = [event.gradient_norm for event in events if isinstance(event, Step)]
    assert isinstance(events[-1], Finished)
    assert "the norm of the gradient fell below 0.001" in events[-1].why
    assert norms[-1] < 1e-3 <= min(norms[:-1])
    assert 10 < len(norms) < 1500


def test_ranks_add_up_to_the_loss_of_one() -> None:
    made = make_task(*SMALL)
    model = made.trainer().model
    batch = made.make_batches(made.parts.train, training=True).next()
    shares = []
    for rank in range(3):
        part = FeedforwardTask(made.settings, replace(made.ranks, rank=rank, world=3))
        shares.append(classification_loss(model, part.make_batches(made.parts.train, training=True).next()))
    torch.testing.assert_close(sum(shares), classification_loss(model, batch))


def test_scores_are_those_of_the_definition() -> None:
    made = make_task(*SMALL)
    model = made.trainer().model
    test = made.parts.test
    found = score(model, made.make_batches(test, training=False))
    with torch.no_grad():
        logits = model.eval()(test.x)
    assert found.nats == pytest.approx(float(torch.nn.functional.cross_entropy(logits, test.labels)), rel=1e-5)
    assert found.accuracy == pytest.approx(float((logits.argmax(1) == test.labels).double().mean()))
    assert found.tokens == 1000
    skewed = replace(made.parts.train, labels=torch.tensor([1] * 97 + [0] * 3))
    counted = most_frequent(skewed, test)
    assert counted["accuracy"] == 0.5
    assert counted["nats"] == pytest.approx(-0.5 * (math.log(98 / 102) + math.log(4 / 102)))


class TestRefusals:
    @pytest.mark.parametrize(
        ("text", "settings", "message"),
        [
            ("a,b,label\n1,2,x\n3,4,x\n", [], "every label is 'x'"),
            ("a,b,label\n1,red,x\n3,4,y\n", [], "column 'b' holds 'red'"),
            ("a,b,label\n1,2,x\n3,4,y\n", ["data.label=c"], "no column 'c'"),
            ("a,b,label\n1,2,x\n3,4,y\n", [], "too few"),
            ("a,b,label\n1,2,x\n3,4,y\n" * 1, ["data.label_file=x"], "data.label_file is for images"),
            ("a,label\n" + "1,x\n2,y\n" * 10, ["model.kind=convolution"], "convolution reads images"),
            (
                "a,label\n" + "1,x\n2,y\n" * 10,
                ["model.kind=basis", "model.basis=radial"],
                "64 centres need as many different examples; there are 2",
            ),
        ],
    )
    def test_tables(
        self, here: Path, capsys: pytest.CaptureFixture[str], text: str, settings: list[str], message: str
    ) -> None:
        (here / "t.csv").write_text(text)
        before = files(here)
        assert message in refused(["train", "feedforward", "data.path=t.csv", *settings], capsys)
        assert files(here) == before

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            (["data.path=nowhere.csv"], "nowhere.csv"),
            (["data.path=nowhere.npz"], "nowhere.npz"),
            (["data.path=nowhere.npz", "data.label=x"], "names a column of a table"),
            (["model.kind=layer"], "Did you mean 'layers'"),
            (["model.activation=gelu"], "'gelu' does not exist"),
            (["model.kind=linear", "model.layers=3"], "it is for model.kind=layers and convolution"),
            (["model.degree=4"], "model.degree=4 would change nothing here: it is for model.kind=basis"),
            (["model.cell=gru"], "'model.cell' does not exist"),
            (["training.truncation=window:3"], "is for sequences"),
            (["engine=fused"], "engines run recurrent cells"),
            (["data.task=spiral"], "Did you mean 'spirals'"),
            (["data.noise=-1"], "must not be negative"),
            (["model.hidden_size=0"], "at least 1"),
        ],
    )
    def test_settings(self, here: Path, capsys: pytest.CaptureFixture[str], settings: list[str], message: str) -> None:
        assert message in refused(["train", "feedforward", *settings], capsys)
        assert files(here) == {}

    def test_gradients_through_time_are_not_monitored(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "monitor is for a task that has recurrent layers" in refused(
            ["train", "feedforward", *SMALL, "--monitor", "5"], capsys
        )
        assert files(here) == {}

    def test_what_a_classifier_is_not_asked(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["train", "feedforward", *SMALL, "--out", "run"]) == 0
        assert "sample is for a task that writes text" in refused(["sample", "run"], capsys)
        assert "gradients is for a task that has recurrent layers" in refused(["explain", "run", "--gradients"], capsys)
        assert "window is not for feedforward" in refused(["evaluate", "run", "--window", "3"], capsys)
        with pytest.raises(OptionError, match="dynamic is not for feedforward"):
            open_run("run").evaluate(dynamic=0.1)
