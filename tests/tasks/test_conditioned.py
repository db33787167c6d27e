"""Class-conditional language models: what they write depends on the class, and they know a class by its text."""

import json
from pathlib import Path

import pytest
import torch

from recurra.cli.main import run
from recurra.errors import OptionError
from recurra.models.conditioned import ConditionedLanguageModel
from tests.cli.test_train import refused
from tests.helpers import make_language_model

SETTINGS = [
    "model.hidden_size=24",
    "model.embedding_size=8",
    "model.dropout=0",
    "training.steps=150",
    "training.warmup=10",
]
SETTINGS += ["training.validate_every=50", "training.learning_rate=0.02"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    random = torch.Generator().manual_seed(0)
    lines = []
    for _ in range(300):
        for label, letters in (("north", "skjo"), ("south", "aeiol")):
            picked = torch.randint(len(letters), (5,), generator=random).tolist()
            lines.append(f"{label}\t{''.join(letters[k] for k in picked)}")
    (tmp_path / "names.tsv").write_text("\n".join(lines))
    return tmp_path


@pytest.mark.usefixtures("here")
class TestFromFileToText:
    def test_text_is_of_its_class(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["train", "conditioned", "data.path=names.tsv", *SETTINGS, "--out", "run"]) == 0
        assert run(["evaluate", "run", "--json"]) == 0
        network, counted = json.loads(capsys.readouterr().out)["scores"].values()
        assert network["class recognised"] > 0.95
        assert network["nats"] < counted["nats"]
        for label, letters in (("north", "skjo"), ("south", "aeiol")):
            written = ""
            for seed in range(10):
                assert run(["sample", "run", "--given", label, "--seed", str(seed), "--json"]) == 0
                written += json.loads(capsys.readouterr().out)["text"]
            assert sum(letter in letters for letter in written) > 0.9 * len(written) > 20
        assert "north" in refused(["sample", "run"], capsys)
        assert "'north'" in refused(["sample", "run", "--given", "nord"], capsys)

    @pytest.mark.parametrize("condition", ["state", "both"])
    def test_the_class_as_initial_state(self, condition: str, capsys: pytest.CaptureFixture[str]) -> None:
        settings = [*SETTINGS, f"model.condition={condition}"]
        assert run(["train", "conditioned", "data.path=names.tsv", *settings, "--out", "run"]) == 0
        assert run(["evaluate", "run", "--json"]) == 0
        network, _ = json.loads(capsys.readouterr().out)["scores"].values()
        assert network["class recognised"] > 0.95

    def test_files_in_a_folder_are_classes(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (here / "langs").mkdir()
        (here / "langs/One.txt").write_text("aa\nab\n" * 20)
        (here / "langs/Two.txt").write_text("cc\ncd\n" * 20)
        quick = [*SETTINGS, "training.steps=2", "training.batch_size=4"]
        assert run(["train", "conditioned", "data.path=langs", *quick, "--out", "folder", "--json"]) == 0
        vocabulary = json.loads((here / "folder/vocabulary.json").read_text())
        assert list(vocabulary["classes"]) == ["One", "Two"]

    def test_lines_without_a_class_are_refused(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (here / "bad.tsv").write_text("a\tb\nno class here\n")
        assert "line 2" in refused(["train", "conditioned", "data.path=bad.tsv"], capsys)
        (here / "one.tsv").write_text("a\tb\n" * 20)
        assert "one class only, 'a'" in refused(["train", "conditioned", "data.path=one.tsv"], capsys)
        assert "data.path" in refused(["train", "conditioned"], capsys)


def test_a_class_moves_the_vector_of_every_token():
    torch.manual_seed(0)
    model = ConditionedLanguageModel(make_language_model(7, "lstm", 5), classes=3).double()
    tokens, labels = torch.randint(7, (2, 6)), torch.tensor([2, 0])
    plain = make_language_model(7, "lstm", 5).double()
    plain.load_state_dict(model.language.state_dict())
    for row in range(2):
        moved = plain.embedding(tokens[row : row + 1]) + model.condition.weight[labels[row]]
        expected = plain.output(plain.recurrent(moved).outputs)
        torch.testing.assert_close(model(tokens, labels)[row], expected[0])


def test_a_vector_can_be_the_condition_and_gets_gradients():
    torch.manual_seed(0)
    model = ConditionedLanguageModel(make_language_model(7, "gru", 5), condition_size=4).double()
    wanted = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    model(torch.randint(7, (2, 6)), wanted).sum().backward()
    assert wanted.grad is not None
    assert bool((wanted.grad != 0).any())
    with pytest.raises(OptionError, match="one of the two"):
        ConditionedLanguageModel(make_language_model(7, "gru", 5))


@pytest.mark.parametrize("told", ["input", "state", "both"])
def test_a_condition_is_an_input_the_initial_state_or_both(told: str) -> None:
    torch.manual_seed(0)
    language = make_language_model(7, "lstm", 5)
    model = ConditionedLanguageModel(language, classes=3, told=told).double()
    tokens, labels = torch.randint(7, (2, 6)), torch.tensor([2, 0])
    c = model.condition(labels)
    state = None
    if told != "input":
        assert model.first is not None
        h, memory = torch.tanh(c @ model.first.weight.T + model.first.bias).split(5, dim=-1)
        state = (((h, memory),),)
    read = language.embedding(tokens) + (c[:, None] if told != "state" else 0)
    expected = language.output(language.recurrent(read, state).outputs)
    torch.testing.assert_close(model(tokens, labels), expected)
    given = model.given(labels)
    streamed, after = given(tokens[:, :4])
    rest, _ = given(tokens[:, 4:], after)  # the first state is for the first call alone
    torch.testing.assert_close(torch.cat([streamed, rest], dim=1), expected)
