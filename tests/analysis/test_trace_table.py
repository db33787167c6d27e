"""The table of the cell at work: every column is what the equations compute."""

import csv
import io

import pytest
import torch

from recurra.analysis.trace_table import trace_table
from recurra.errors import OptionError
from recurra.models.language import LanguageModel
from tests.helpers import make_language_model

NAMES = ["the", "little", "brown", "fox", "Start", "End"]
SENTENCE = [4, 0, 1, 2, 3, 5]


def trained(cell: str, layers: int = 1) -> LanguageModel:
    """A model that has learned one sentence by heart."""
    torch.manual_seed(0)
    model = make_language_model(6, cell, 5, embedding_size=5, layers=layers, engine="eager")
    optimiser = torch.optim.Adam(model.parameters(), lr=0.03)
    tokens = torch.tensor([SENTENCE])
    for _ in range(120):
        logits, _ = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits[0], tokens[0, 1:])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model


def test_the_little_brown_fox() -> None:
    table = trace_table(trained("elman"), SENTENCE, NAMES)
    assert [row.input for row in table.rows] == ["Start", "the", "little", "brown", "fox"]
    assert [row.target for row in table.rows] == ["the", "little", "brown", "fox", "End"]
    assert [row.prediction for row in table.rows] == [row.target for row in table.rows]
    assert [row.error for row in table.rows] == [0] * 5


def test_the_columns_are_the_equations() -> None:
    model = trained("elman")
    direction = model.recurrent.stack[0][0]
    for before, row in zip(
        [None, *trace_table(model, SENTENCE, NAMES).rows], trace_table(model, SENTENCE, NAMES).rows, strict=False
    ):
        (weighted,), (product,) = row.weighted_vector.values(), row.weighted_state.values()
        torch.testing.assert_close(weighted, (direction.W.double() @ row.vector + direction.b.double()).detach())
        torch.testing.assert_close(product, (direction.U.double() @ row.state["h"]).detach())
        torch.testing.assert_close(row.next_state["h"], torch.tanh(weighted + product))
        if before is not None:
            assert torch.equal(before.next_state["h"], row.state["h"])


@pytest.mark.parametrize("cell", ["lstm", "gru", "skip(d=2)"])
def test_gates_have_their_names(cell: str) -> None:
    model = trained(cell, layers=2)
    for layer in (0, 1):
        row = trace_table(model, SENTENCE, NAMES, layer).rows[0]
        assert set(row.gates) == set(model.recurrent.cell.graph.gates)
        assert set(row.next_state) == {state.name for state in model.recurrent.cell.graph.states}


def test_the_predictions_are_the_model_s() -> None:
    model = trained("lstm", layers=2).eval()
    logits, _ = model(torch.tensor([SENTENCE[:-1]]))
    for layer in (0, 1):
        found = torch.stack([row.output for row in trace_table(model, SENTENCE, NAMES, layer).rows])
        torch.testing.assert_close(found, logits[0], rtol=0, atol=1e-5)


def test_as_csv_and_as_a_page() -> None:
    table = trace_table(trained("elman"), SENTENCE, NAMES)
    rows = list(csv.reader(io.StringIO(table.to_csv())))
    assert rows[0] == list(table.COLUMNS)
    assert [row[0] for row in rows[1:]] == ["Start", "the", "little", "brown", "fox"]
    assert [row[-1] for row in rows[1:]] == ["0"] * 5
    page = table.to_html("<fox>")
    assert "&lt;fox&gt;" in page
    assert page.count("<tr>") == 6
    assert "color-scheme: light dark" in page


def test_columns_are_those_of_the_cell_and_white_space_is_named() -> None:
    spaced = ["\n", " ", *NAMES[2:]]
    elman, gru = (trace_table(make_language_model(6, cell, 5), SENTENCE, spaced) for cell in ("elman", "gru"))
    assert "gates" in gru.table().columns
    assert "gates" not in elman.table().columns
    assert len(elman.table().rows) == 5  # a line end begins no line of its own
    assert [row[0] for row in elman.table().rows[1:3]] == ["line end", "space"]


def test_what_makes_no_table() -> None:
    model = trained("elman")
    with pytest.raises(OptionError, match="at least two tokens"):
        trace_table(model, [0], NAMES)
    with pytest.raises(OptionError, match="layer must be 0 to 0"):
        trace_table(model, SENTENCE, NAMES, 1)


def test_residual_connections_reach_the_output() -> None:
    torch.manual_seed(0)
    model = make_language_model(6, "gru", 5, layers=3, residual=True, engine="eager").eval()
    logits, _ = model(torch.tensor([SENTENCE[:-1]]))
    for layer in (0, 1, 2):
        found = torch.stack([row.output for row in trace_table(model, SENTENCE, NAMES, layer).rows])
        torch.testing.assert_close(found, logits[0], rtol=0, atol=1e-5)
