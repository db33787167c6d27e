"""The encoder and its decoder: five ways to hand over, one formula each, and neighbours in a batch that change nothing."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from recurra import CATALOGUE
from recurra.data.batches import Batch
from recurra.data.pairs import Pairs
from recurra.errors import OptionError
from recurra.models.search import Ending, beam_search
from recurra.models.translate import CONTEXTS, Translation, Translator
from recurra.tasks.translate import pair_loss
from tests.helpers import make_translator

SOURCES, TARGETS, START, END = 9, 7, 5, 6
LENGTHS = torch.tensor([6, 1, 4])


def make(context: str = "attention", cell: str = "gru", **options: object) -> Translator:
    torch.manual_seed(2)
    defaults = {"engine": "eager"} | ({"bidirectional": False} if context == "final" else {})
    model = make_translator(
        SOURCES, TARGETS, cell, 5, context=context, embedding_size=4, **(defaults | options)
    ).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    return model.eval()


def tokens(B: int, T: int, size: int, seed: int = 0) -> Tensor:
    return torch.randint(size, (B, T), generator=torch.Generator().manual_seed(seed))


every_context = pytest.mark.parametrize("context", CONTEXTS)


class TestContext:
    @every_context
    @pytest.mark.parametrize("bidirectional", [True, False])
    def test_it_depends_on_all_that_was_read_and_on_nothing_else(self, context: str, bidirectional: bool) -> None:
        model = make(context, bidirectional=bidirectional and context != "final")
        source, inputs = tokens(3, 6, SOURCES), tokens(3, 4, TARGETS)
        before = model(source, LENGTHS, inputs)
        for s in range(6):
            other = source.clone()
            other[:, s] = (other[:, s] + 1) % SOURCES
            changed = (model(other, LENGTHS, inputs) - before).abs().amax((1, 2)) > 1e-12
            assert changed.tolist() == (s < LENGTHS).tolist()

    @every_context
    def test_gradients_reach_every_parameter(self, context: str) -> None:
        model = make(context, layers=2, learn_initial=True, longest=4)
        reading = model.read(tokens(3, 6, SOURCES), LENGTHS)
        (
            model.decode(reading, tokens(3, 4, TARGETS)).logits.sum() + model.length_logits(reading).square().sum()
        ).backward()
        without = [name for name, value in model.named_parameters() if value.grad is None or not value.grad.any()]
        assert without == []

    def test_as_input_every_step_reads_it(self) -> None:
        model = make("input")
        source, inputs = tokens(3, 6, SOURCES), tokens(3, 4, TARGETS)
        reading = model.read(source, LENGTHS)
        read = torch.cat([model.target_embedding(inputs), reading.context[:, None].expand(-1, 4, -1)], dim=-1)
        expected = model.output(model.decoder(read).outputs)
        torch.testing.assert_close(model(source, LENGTHS, inputs), expected)

    def test_the_context_is_where_each_direction_ends(self) -> None:
        model = make(bidirectional=True)
        source = tokens(3, 6, SOURCES)
        reading = model.read(source, LENGTHS)
        trace = model.encoder(model.source_embedding(source), None, LENGTHS)
        torch.testing.assert_close(reading.context, torch.cat([trace.final[0][0][0], trace.final[0][1][0]], dim=-1))

    @pytest.mark.parametrize("cell", ["lstm", "skip", "clockwork"])
    def test_as_state_the_decoder_starts_from_it(self, cell: str) -> None:
        model = make("state", cell, layers=2)
        source, inputs = tokens(3, 6, SOURCES), tokens(3, 4, TARGETS)
        reading = model.read(source, LENGTHS)
        state = model.first_state(reading)
        assert state is not None
        moved = [value for layer in state for name, value in zip(model.decoder.cell.graph.states, layer[0], strict=True)
                 if name.name != "clock"]  # fmt: skip
        given = torch.cat([value.flatten(1) for value in moved], dim=-1)
        torch.testing.assert_close(given, torch.tanh(model.first(reading.context)))
        clocks = [value for layer in state for name, value in zip(model.decoder.cell.graph.states, layer[0], strict=True)
                  if name.name == "clock"]  # fmt: skip
        assert len(clocks) == (2 if cell == "clockwork" else 0)
        assert not any(clock.any() for clock in clocks)
        expected = model.output(model.decoder(model.target_embedding(inputs), state).outputs)
        torch.testing.assert_close(model(source, LENGTHS, inputs), expected)

    def test_attention_predicts_from_what_it_finds(self) -> None:
        model = make("attention", attention="dot")
        source, inputs = tokens(3, 6, SOURCES), tokens(3, 4, TARGETS)
        reading = model.read(source, LENGTHS)
        decoded = model.decode(reading, inputs)
        hidden = model.decoder(model.target_embedding(inputs), model.first_state(reading)).outputs
        assert decoded.weights is not None
        found = torch.einsum("bts,bsc->btc", decoded.weights, reading.outputs)
        expected = model.output(torch.tanh(model.join(torch.cat([hidden, found], dim=-1))))
        torch.testing.assert_close(decoded.logits, expected)
        torch.testing.assert_close(decoded.weights.sum(-1), torch.ones(3, 4, dtype=torch.float64))

    @pytest.mark.parametrize("cell", ["lstm", "skip", "clockwork"])
    def test_the_final_state_itself_is_where_the_decoder_starts(self, cell: str) -> None:
        model = make("final", cell, layers=2)
        source, inputs = tokens(3, 6, SOURCES), tokens(3, 4, TARGETS)
        for row, length in enumerate(LENGTHS.tolist()):  # each alone, without padding
            final = model.encoder(model.source_embedding(source[row : row + 1, :length])).final
            expected = model.output(model.decoder(model.target_embedding(inputs[row : row + 1]), final).outputs)
            torch.testing.assert_close(model(source, LENGTHS, inputs)[row], expected[0])

    def test_a_final_state_that_does_not_fit_is_refused(self) -> None:
        with pytest.raises(OptionError, match="bidirectional=False"):
            make("final", bidirectional=True)
        with pytest.raises(OptionError, match="layer\\(s\\) of gru with 5 units and 1 layer\\(s\\) of lstm"):
            make("final", decoder_cell="lstm")

    def test_an_unknown_one(self) -> None:
        with pytest.raises(OptionError, match="Did you mean 'input'"):
            make("inputs")


@pytest.mark.parametrize("cell", sorted(CATALOGUE))
def test_any_cell(cell: str) -> None:
    """Encoder and decoder, trained a little: the loss falls."""
    model = make_translator(SOURCES, TARGETS, cell, 8, decoder_cell="gru" if cell == "lstm" else None, engine="eager")
    batch = next(Pairs([(tokens(1, 4, SOURCES)[0], torch.tensor([START, 1, 2, END]))] * 3, 3).one_pass())
    optimiser = torch.optim.Adam(model.parameters(), 0.02)
    losses = []
    for _ in range(12):
        optimiser.zero_grad()
        loss = pair_loss(model, batch)
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.8 * losses[0]


def test_a_decoder_of_another_cell() -> None:
    model = make(cell="lstm", decoder_cell="elman")
    assert (model.encoder.cell.name, model.decoder.cell.name) == ("lstm", "elman")


@every_context
def test_token_by_token_is_all_at_once(context: str) -> None:
    model = make(context, "lstm", layers=2)
    reading = model.read(tokens(3, 6, SOURCES), LENGTHS)
    inputs = torch.cat([torch.full((3, 1), START), tokens(3, 4, TARGETS)], dim=1)
    expected = model.decode(reading, inputs).logits
    asked = Translation(model, reading, START)
    logits, state = asked.start()
    for t in range(5):
        torch.testing.assert_close(logits, expected[:, t])
        logits, state = asked.step(inputs[:, min(t + 1, 4)], state)


def test_tied() -> None:
    model = make_translator(SOURCES, TARGETS, "gru", 8, tied=True)
    assert model.output.weight is model.target_embedding.weight
    with pytest.raises(OptionError, match="an embedding_size equal to hidden_size"):
        make_translator(SOURCES, TARGETS, "gru", 8, embedding_size=4, tied=True)


def test_lengths_must_have_been_learned() -> None:
    model = make()
    with pytest.raises(OptionError, match=r"model\.predict_length"):
        model.length_logits(model.read(tokens(3, 6, SOURCES), LENGTHS))


@st.composite
def groups(draw: st.DrawFn) -> list[tuple[Tensor, Tensor]]:
    """Pairs of any lengths, the targets with their start and end."""
    sizes = draw(st.lists(st.tuples(st.integers(1, 7), st.integers(0, 6)), min_size=2, max_size=5))
    seed = draw(st.integers(0, 99))
    return [
        (
            tokens(1, n, SOURCES, seed + k)[0],
            torch.cat([torch.tensor([START]), tokens(1, max(1, m), 5, seed - k)[0][:m], torch.tensor([END])]),
        )
        for k, (n, m) in enumerate(sizes)
    ]


def gradients(model: Translator, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    model.zero_grad()
    loss = pair_loss(model, batch)
    loss.backward()
    return loss.detach(), {
        name: torch.zeros_like(each) if each.grad is None else each.grad.clone()
        for name, each in model.named_parameters()
    }


def together(pairs: list[tuple[Tensor, Tensor]]) -> Batch:
    (batch,) = Pairs(pairs, len(pairs), shuffle=False).one_pass()
    return batch


@pytest.mark.parametrize(
    ("context", "kind", "engine"),
    [
        ("input", "dot", "eager"),
        ("state", "dot", "auto"),
        ("both", "dot", "eager"),
        ("attention", "dot", "eager"),
        ("attention", "additive", "auto"),
    ],
)
@given(pairs=groups(), bidirectional=st.booleans())
def test_neighbours_in_a_batch_change_nothing(
    context: str, kind: str, engine: str, pairs: list[tuple[Tensor, Tensor]], bidirectional: bool
) -> None:
    """Loss, gradients and translations of a pair do not depend on what it is batched with."""
    model = make(context, attention=kind, bidirectional=bidirectional, longest=6, engine=engine)
    loss, found = gradients(model, together(pairs))
    alone = [gradients(model, together([pair])) for pair in pairs]
    torch.testing.assert_close(loss, sum(each for each, _ in alone), rtol=1e-10, atol=1e-10)
    for name, value in found.items():
        torch.testing.assert_close(value, sum(each[name] for _, each in alone), rtol=1e-9, atol=1e-9)

    def translations(sources: list[Tensor]) -> list[list[list[int]]]:
        lengths = torch.tensor([len(each) for each in sources])
        with torch.no_grad():
            reading = model.read(torch.nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=3), lengths)
        made = beam_search(Translation(model, reading, START), Ending(8, END, never=(START,)), 3, n_best=3)
        return [[one.tokens for one in each] for each in made]

    sources = [source for source, _ in pairs]
    assert translations(sources) == [translations([source])[0] for source in sources]
