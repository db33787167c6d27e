"""The recipes of pairs: trained a little, evaluated, resumed, and asked wrongly."""

import json
import math
import random
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from recurra.cli.main import run
from recurra.errors import OptionError
from recurra.models.sampling import Choice
from recurra.tasks.catalogue import find_recipe
from recurra.tasks.training_run import train_run
from recurra.tasks.translate import TranslationTask, choose_lengths
from recurra.training.events import Step, Validated
from tests.cli.test_train import outcome, refused

SMALL = [
    "model.hidden_size=12",
    "model.embedding_size=6",
    "model.dropout=0",
    "training.batch_size=8",
    "training.steps=6",
    "training.warmup=1",
    "training.validate_every=3",
    "training.save_every=2",
    "training.average=none",
    "engine=eager",
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with pairs: words, and the same words in capitals and the other way round."""
    monkeypatch.chdir(tmp_path)
    draw = random.Random(0)
    lines = [[draw.choice(["ba", "ce", "di", "fo"]) for _ in range(draw.randint(1, 4))] for _ in range(80)]
    sources, targets = [" ".join(line) for line in lines], [" ".join(reversed(line)).upper() for line in lines]
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(sources, targets, strict=True)))
    (tmp_path / "a.txt").write_text("\n".join(sources) + "\n")
    (tmp_path / "b.txt").write_text("\n".join(targets) + "\n")
    return tmp_path


def train(*extra: str, out: str = "run") -> list[str]:
    return ["train", "translate", "data.path=pairs.tsv", "data.min_count=1", *SMALL, *extra, "--out", out]


def make_task(name: str, *extra: str) -> TranslationTask:
    made = find_recipe(name).configure([*SMALL, *extra])
    assert isinstance(made, TranslationTask)
    return made


@pytest.mark.parametrize("context", ["input", "state", "both", "attention"])
def test_each_way_learns(context: str, here: Path) -> None:
    made = make_task(
        "translate", "data.path=pairs.tsv", "data.min_count=1", f"model.context={context}", "training.steps=60",
        "training.learning_rate=0.03", "training.validate_every=60", "model.hidden_size=24", "seed=3",
    )  # fmt: skip
    events = list(made.trainer().events())
    losses = [event.loss for event in events if isinstance(event, Step)]
    (valid,) = [event.valid for event in events if isinstance(event, Validated)]
    assert losses[-1] < 0.4 * losses[0]
    assert valid < 0.7 * losses[0]


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("context", ["both", "attention"])
def test_precisions(context: str, dtype: str, here: Path) -> None:
    made = make_task("translate", "data.path=pairs.tsv", f"model.context={context}", f"dtype={dtype}")
    steps = [event for event in made.trainer().events() if isinstance(event, Step)]
    assert len(steps) == 6
    assert not any(step.skipped for step in steps)


class TestData:
    def test_two_files_are_one_with_two_columns(self, here: Path) -> None:
        one = make_task("translate", "data.path=pairs.tsv")
        other = make_task("translate", "data.path=a.txt", "data.target_path=b.txt")
        assert one.pairs == other.pairs
        assert one.vocabulary == other.vocabulary

    @pytest.mark.parametrize("tokens", ["byte", "char", "word"])
    def test_each_side_has_its_own_tokens(self, here: Path, tokens: str) -> None:
        made = make_task("translate", "data.path=pairs.tsv", "data.min_count=1", f"data.tokens={tokens}")
        assert made.source_tokenizer.decode(made.source_tokens("ba ce")) == "ba ce"
        assert made.source_tokenizer.end is None
        assert made.target_tokenizer.size == {"byte": 258, "char": 12, "word": 7}[tokens]

    def test_pieces(self, here: Path) -> None:
        pytest.importorskip("tokenizers")
        made = make_task("translate", "data.path=pairs.tsv", "data.min_count=1", "data.tokens=bpe")
        assert made.source_tokenizer.decode(made.source_tokens("ba ce")) == "ba ce"
        assert all(not event.skipped for event in made.trainer().events() if isinstance(event, Step))

    @pytest.mark.parametrize("name", ["dates", "addition"])
    def test_parts_of_synthetic_pairs_share_nothing(self, name: str) -> None:
        made = make_task(name, "data.count=2000")
        train, valid, test = ({pair.source for pair in part} for part in made.pairs)
        assert (len(train), len(valid), len(test)) == (1700, 100, 200)
        assert not train & valid | train & test | valid & test
        assert made.pairs == make_task(name, "data.count=2000").pairs
        assert made.pairs != make_task(name, "data.count=2000", "seed=1").pairs


class TestEvaluating:
    @pytest.fixture
    def made(self, here: Path) -> TranslationTask:
        return make_task("translate", "data.path=pairs.tsv", "data.min_count=1")

    def perfect(self, made: TranslationTask, monkeypatch: pytest.MonkeyPatch, wrong: int = 0) -> None:
        """A search that knows the answers, but for the last token of the first few."""
        answers = {pair.source: pair.target for part in made.pairs for pair in part}

        def search(self: TranslationTask, model: Any, texts: list[str], **how: Any) -> Any:
            from recurra.models.search import Found

            found = [self.target_tokenizer.encode(answers[text]).tolist() for text in texts]
            return [[Found(each[:-1] if k < wrong else each, 0.0, 0.0)] for k, each in enumerate(found)]

        monkeypatch.setattr(TranslationTask, "search", search)

    @pytest.mark.parametrize("wrong", [0, 2])
    def test_matches_and_edits(self, made: TranslationTask, monkeypatch: pytest.MonkeyPatch, wrong: int) -> None:
        self.perfect(made, monkeypatch, wrong)
        answer = made.evaluate(made.make_model())
        network, markov, copied = answer.scores.values()
        count = len(made.pairs.test)
        assert answer.data == "test"
        assert network["exact match"] == pytest.approx(1 - wrong / count)
        assert network["edit distance"] == pytest.approx(wrong / count)
        assert markov.keys() == {"nats"}
        assert copied["exact match"] == sum(pair.source == pair.target for pair in made.pairs.test) / count

    def test_nats_are_those_of_each_pair_by_itself(self, made: TranslationTask) -> None:
        model = made.make_model().eval()
        total, count = 0.0, 0
        for pair in made.pairs.test:
            ids = made.target_tokenizer.encode(pair.target, "replace")
            start, end = torch.tensor([made.target_tokenizer.start]), torch.tensor([made.target_tokenizer.end])
            source = made.source_tokens(pair.source)
            with torch.no_grad():
                logits = model(source[None], torch.tensor([len(source)]), torch.cat([start, ids])[None])[0]
            true = torch.cat([ids, end])
            total -= float(logits.log_softmax(-1).gather(1, true[:, None]).sum())
            count += len(true)
        answer = made.evaluate(model, baselines=False)
        assert answer.count == count
        assert answer.scores["gru-12"]["nats"] == pytest.approx(total / count, rel=1e-5)

    def test_bleu_is_left_out_without_its_package(self, made: TranslationTask, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "sacrebleu", None)
        assert "BLEU" not in made.evaluate(made.make_model(), baselines=False).scores["gru-12"]

    def test_tokens_that_training_did_not_have(self, here: Path) -> None:
        (here / "other.tsv").write_text("ba Ω\tΩ BA\n")
        made = make_task("translate", "data.path=pairs.tsv", "data.min_count=1", "model.copy_unknown=true")
        assert made.evaluate(made.make_model(), data="other.tsv", baselines=False).count == 3

    def test_what_is_for_others(self, made: TranslationTask) -> None:
        run = train_run(made, None)
        for option in ({"window": 3}, {"dynamic": 0.1}):
            with pytest.raises(OptionError, match=r"is not for translate\. It takes data, baselines"):
                run.evaluate(**option)
        with pytest.raises(OptionError, match=r"gradients is for .* It can: evaluate, translate"):
            run.gradients()


class TestTranslating:
    TEXTS = ("ba", "fo di ba ce", "ce ce", "di fo", "ba ba ba ba")

    @pytest.fixture
    def made(self, here: Path) -> TranslationTask:
        return make_task(
            "translate", "data.path=pairs.tsv", "data.min_count=1", "model.predict_length=true", "dtype=float64"
        )

    @pytest.mark.parametrize("how", [{}, {"beam": 3, "n_best": 3}, {"lengths": "predicted"}], ids=str)
    def test_side_by_side_is_one_by_one(self, made: TranslationTask, how: dict[str, Any]) -> None:
        model = made.make_model().double()
        together = made.search(model, self.TEXTS, **how)
        for text, found in zip(self.TEXTS, together, strict=True):
            (alone,) = made.search(model, [text], **how)
            assert [one.tokens for one in alone] == [one.tokens for one in found]
        assert model.training  # it is left as it was

    def test_a_beam_of_1_is_greedy(self, made: TranslationTask) -> None:
        model = made.make_model().double()
        searched = made.search(model, self.TEXTS)
        greedy = made.search(model, self.TEXTS, choice=Choice(greedy=True))
        assert [one.tokens for (one,) in searched] == [one.tokens for (one,) in greedy]

    def test_lengths_are_learned(self, made: TranslationTask) -> None:
        """As many words come out as go in; the head predicts how many before the first is written."""
        trained = make_task(
            "translate", "data.path=pairs.tsv", "data.min_count=1", "model.predict_length=true", "training.steps=160",
            "training.learning_rate=0.03", "training.validate_every=80",
        )  # fmt: skip
        trainer = trained.trainer()
        for _ in trainer.events():
            pass
        found = trained.search(trainer.model, self.TEXTS, lengths="predicted")
        assert [len(one.tokens) for (one,) in found] == [1, 4, 2, 2, 4]

    def test_lengths_are_drawn_from_their_distribution(self) -> None:
        logits = torch.tensor([0.0, 0.5, 0.3, 0.2]).log().expand(4000, 4)
        drawn = choose_lengths(logits, "drawn", torch.Generator().manual_seed(0))
        assert (drawn.bincount(minlength=4) / 4000).tolist() == pytest.approx([0, 0.5, 0.3, 0.2], abs=0.03)
        assert choose_lengths(logits, "predicted").unique().tolist() == [1]
        with pytest.raises(OptionError, match="Did you mean"):
            choose_lengths(logits, "draw")

    def test_unknown_words_are_copied_from_where_it_looks(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        made = make_task(
            "translate", "data.path=pairs.tsv", "data.min_count=1", "model.copy_unknown=true", "training.steps=1"
        )
        looks = torch.tensor([[0.1, 0.2, 0.7], [0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [1, 0, 0]])
        monkeypatch.setattr(TranslationTask, "attended", lambda *_: looks)
        known = made.target_tokenizer.encode("BA").tolist()[0]
        assert made.text_of(made.make_model(), "ba zoë ce", [0, known, 0]) == "ce BA zoë"
        plain = make_task("translate", "data.path=pairs.tsv", "data.min_count=1")
        assert plain.text_of(plain.make_model(), "ba zoë ce", [0, known]) == "<unk> BA"


class TestRuns:
    def test_a_resumed_run_is_the_same_run(self, here: Path, cut_off: Any) -> None:
        assert run(train(out="whole")) == 0
        with cut_off():
            assert run(train(out="cut")) == 0
        before = (here / "cut/metrics.jsonl").read_bytes()
        assert run(["train", "--resume", "cut"]) == 0
        assert len(before) < len((here / "whole/metrics.jsonl").read_bytes())
        assert outcome(here / "cut") == outcome(here / "whole")

    def test_evaluate(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(train()) == 0
        assert "recurra translate run" in capsys.readouterr().err
        assert run(["evaluate", "run", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        network, markov, _ = found["scores"].values()
        assert {"nats", "exact match", "edit distance"} <= network.keys()
        assert all(math.isfinite(value) for value in network.values())
        assert run(["evaluate", "run"]) == 0
        out = capsys.readouterr().out
        assert f"{markov['nats']:.4f}" in out
        assert f"{found['tokens']:,} tokens" in out
        assert run(["evaluate", "run", "--data", "pairs.tsv", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["data"] == "pairs.tsv"

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            (["data.path=missing.tsv"], "missing.tsv"),
            (["data.path=a.txt"], "line 1: a pair is two columns"),
            (["data.path=a.txt", "data.target_path=short.txt"], "a.txt has 80 lines and short.txt has 3"),
            (["data.path=empty.tsv"], "empty.tsv, line 2: the source is empty"),
            (["data.path=none"], "data.path=FILE"),
            (["data.path=few.tsv"], "none to validate"),
            (["data.task=dates"], "leave out data.path"),
            (["data.task=date"], "Did you mean 'dates'"),
            (["model.context=atention"], "Did you mean 'attention'"),
            (["model.attention=multiplicative"], "additive, dot"),
            (["model.copy_unknown=true", "data.tokens=char"], "data.tokens=word"),
            (["training.truncation=every:8"], "pairs are learned whole"),
            (["training.feeding=free"], "pairs are learned whole"),
            (["data.count=0"], "data.count"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_bad_settings_are_one_line(
        self, here: Path, capsys: pytest.CaptureFixture[str], settings: list[str], words: str
    ) -> None:
        (here / "short.txt").write_text("a\nb\nc\n")
        (here / "empty.tsv").write_text("a\tb\n\tc\n")
        (here / "few.tsv").write_text("a\tb\n")
        assert words in refused(train(*settings), capsys)
        assert not (here / "run").exists()

    def test_more_days_than_there_are(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "73,049" in refused(["train", "dates", "data.count=80000"], capsys)
        assert not (here / "runs").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "share"), [("dates", 0.995), ("addition", 0.99)])
def test_the_presets_solve_their_tasks(name: str, share: float) -> None:
    made = find_recipe(name).configure([])
    trainer = made.trainer()
    for _ in trainer.events():
        pass
    (score,) = made.evaluate(trainer.evaluated, baselines=False).scores.values()
    assert score["exact match"] >= share
