"""A beam search as a tree."""

import torch

import recurra as rc
from recurra.analysis.beam import END, Growth
from recurra.models.search import Continuation, Ending, beam_search


def grow(width: int, limit: int, power: float = 1.0, seed: int = 0):
    torch.manual_seed(seed)
    model = rc.models.LanguageModel(5, rc.Recurrent("gru", 8, 8)).eval()
    growth = Growth(0, str)
    found = beam_search(
        Continuation(model, torch.tensor([[1, 2]])), Ending(limit, 0), width, length_power=power, watch=growth.add
    )
    return growth.tree("source"), found[0][0]


def test_the_best_way_is_the_sequence_that_won() -> None:
    for seed in range(8):
        for power in (0.0, 1.0):
            tree, best = grow(4, 6, power, seed)
            way = [node for node in tree.nodes if node.is_best]
            assert [int(node.token) for node in way if node.token != END] == best.tokens
            assert abs(way[-1].log_probability - best.log_probability) < 1e-9
            assert abs(way[-1].score - best.score) < 1e-9


def test_a_beam_holds_no_more_than_its_width_at_each_step() -> None:
    tree, _ = grow(3, 8)
    for step in range(1, 9):
        assert sum(node.step == step for node in tree.nodes) <= 3
    for node in tree.nodes:
        if node.parent >= 0:
            before = tree.nodes[node.parent]
            assert before.step == node.step - 1
            assert not before.is_over
            assert node.log_probability <= before.log_probability


def test_a_beam_that_is_wider_than_what_there_is() -> None:
    tree, _ = grow(12, 2)
    assert sum(node.step == 1 for node in tree.nodes) == 5
    assert all(node.log_probability > -1e30 for node in tree.nodes)


def test_no_two_nodes_stand_in_one_place() -> None:
    tree, _ = grow(4, 7)
    places = list(zip((node.step for node in tree.nodes), tree.rows(), strict=True))
    assert len(set(places)) == len(places)
    assert tree.plot().axes[0].get_xlabel() == "step"
