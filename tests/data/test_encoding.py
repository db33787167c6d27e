"""From files to tensors: what is learned from training data, kept as JSON, and applied to other data."""

import json

import numpy as np
import pytest
import torch

from recurra.data.encoding import Channels, Names, Tokens, encoder_from_json, fit_encoder
from recurra.data.labelled import Labelled
from recurra.errors import DataError, OptionError

NAN = float("nan")


def numbers(*sequences: list[list[float]]) -> Labelled:
    return Labelled("numbers", [np.array(each, dtype=float) for each in sequences], None)


def text(*sequences: str) -> Labelled:
    return Labelled("text", list(sequences), None)


class TestChannels:
    def test_training_data_has_mean_0_and_size_1(self) -> None:
        random = np.random.default_rng(0)
        data = numbers(*([[5 + 3 * a, 1000 * b] for a, b in random.normal(size=(n, 2))] for n in (3, 40, 20)))
        values, lengths = Channels.fit(data).encode(data, torch.float64)
        assert lengths.tolist() == [3, 40, 20]
        torch.testing.assert_close(values.mean(0), torch.zeros(2, dtype=torch.float64), atol=1e-12, rtol=0)
        torch.testing.assert_close(values.std(0, correction=0), torch.ones(2, dtype=torch.float64))

    def test_missing_values_are_the_mean_and_say_so(self) -> None:
        data = numbers([[1, 7], [NAN, 8]], [[3, 9]])
        encoder = Channels.fit(data)
        values, _ = encoder.encode(data, torch.float64)
        assert encoder.size == 3
        torch.testing.assert_close(values[:, 0], torch.tensor([-1.0, 0, 1], dtype=torch.float64))
        assert values[:, 2].tolist() == [0, 1, 0]
        later, _ = encoder.encode(numbers([[NAN, NAN]]), torch.float64)
        assert later.tolist() == [[0, 0, 1]]

    def test_a_channel_that_never_changes_stays_finite(self) -> None:
        data = numbers([[4.2, 1], [4.2, 2]])
        assert Channels.fit(data).encode(data, torch.float32)[0][:, 0].tolist() == [0, 0]

    def test_pixels_have_one_mean_and_one_size(self) -> None:
        data = Labelled("images", list(np.array([[[0, 0], [0, 1]], [[0, 0], [1, 1]]], dtype=np.float32)), None)
        encoder = Channels.fit(data)
        assert encoder.mean == (0.375, 0.375)
        assert encoder.scale[0] == encoder.scale[1] == pytest.approx(np.sqrt(15) / 8)

    def test_mixed_channels_are_kept_and_missing_values_are_still_the_mean(self) -> None:
        random = np.random.default_rng(0)
        data = numbers(*random.normal(size=(6, 5, 2)).tolist(), [[NAN, NAN]])
        data.sequences[0][:] += 3
        labelled = Labelled("numbers", data.sequences, list("aabbabb"))
        encoder = Channels.fit(labelled, whiten=0.5)
        values, _ = encoder.encode(data, torch.float64)
        plain, _ = Channels.fit(data).encode(data, torch.float64)
        torch.testing.assert_close(values[:, :2], plain[:, :2] @ torch.tensor(encoder.mix, dtype=torch.float64))
        assert not torch.allclose(values, plain)
        assert values[-1].tolist() == [0, 0, 1, 1]
        again = encoder_from_json(json.loads(json.dumps(encoder.to_json())))
        assert again == encoder

    def test_refused(self) -> None:
        with pytest.raises(OptionError, match=r"data\.whiten=0\.5 is for numbers in channels; this file holds text"):
            fit_encoder(text("abba"), "char", 1, None, whiten=0.5)
        with pytest.raises(DataError, match="channel 2 of 2 has no value"):
            Channels.fit(numbers([[1, NAN]], [[2, NAN]]))
        encoder = Channels.fit(numbers([[1], [2]]))
        with pytest.raises(DataError, match="reads 1 channels; these sequences have 2"):
            encoder.encode(numbers([[1, 2]]), torch.float32)
        with pytest.raises(DataError, match="reads numbers; this file holds text"):
            encoder.encode(text("a"), torch.float32)


class TestTokens:
    def test_texts(self) -> None:
        encoder = fit_encoder(text("abba", "a"), "char", 1, None)
        values, lengths = encoder.encode(text("ab", "", "za"), torch.float32)
        assert values.tolist() == [1, 2, 0, 1]
        assert lengths.tolist() == [2, 0, 2]

    def test_tokens_stay_whole(self) -> None:
        data = Labelled("tokens", [["U.S.", "of", "A"], ["of"]], None)
        encoder = Tokens.fit(data, "char", min_count=2, max_symbols=None)
        assert encoder.size == 2
        assert encoder.encode(data, torch.float32)[0].tolist() == [0, 1, 0, 1]

    def test_a_vocabulary_of_an_older_run(self) -> None:
        saved = {"kind": "text", "tokeniser": {"kind": "char", "symbols": ["a", "b"], "cut": False, "sequences": False}}
        assert encoder_from_json(saved).encode(text("ab"), torch.float32)[0].tolist() == [1, 2]


@pytest.mark.parametrize(
    "data",
    [numbers([[1, 7], [NAN, 8]]), text("abba"), Labelled("tokens", [["a b", "c"]], None)],
    ids=lambda data: data.kind,
)
def test_kept_as_json(data: Labelled) -> None:
    encoder = fit_encoder(data, "char", 1, None)
    again = encoder_from_json(json.loads(json.dumps(encoder.to_json())))
    assert again.size == encoder.size
    for one, other in zip(again.encode(data, torch.float32), encoder.encode(data, torch.float32), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(DataError, match=r"vocabulary\.json"):
        encoder_from_json({"kind": data.kind})


class TestNames:
    def labelled(self, *labels: object) -> Labelled:
        return Labelled("text", ["x"] * len(labels), list(labels))

    def test_numbers_by_size_before_words(self) -> None:
        names = Names.fit(self.labelled("10", "9", "b", "9"), ["10", "9", "b", "a"])
        assert names.counts == {"9": 2, "10": 1, "a": 0, "b": 1}
        assert names.encode(self.labelled("b", "9"), "it").tolist() == [3, 0]

    def test_of_steps(self) -> None:
        names = Names.fit(self.labelled(["O", "B"], ["O"]), ["O", "B"])
        assert names.encode(self.labelled(["B"], ["O", "B"]), "it").tolist() == [0, 1, 0]

    def test_refused(self) -> None:
        with pytest.raises(DataError, match="all labels are 'a': there is one class only"):
            Names.fit(self.labelled("a", "a"), ["a"])
        names = Names.fit(self.labelled("a", "b"), ["a", "b"])
        with pytest.raises(DataError, match=r"test.csv has labels that training never saw: c, d. Known: a, b"):
            names.encode(self.labelled("a", "d", "c"), "test.csv")


def test_a_small_signal_on_a_large_offset_is_kept() -> None:
    signal = np.random.default_rng(0).normal(size=(200, 1))
    data = Labelled("numbers", [signal + 1e8], ["a"])
    values, _ = Channels.fit(data).encode(data, torch.float32)
    assert np.abs(values.numpy() - (signal - signal.mean()) / signal.std()).max() < 1e-5
