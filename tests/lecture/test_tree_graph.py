"""The graph of a recursive network: shapes, shared weights, gradients, the picture."""

import math
from dataclasses import replace

import pytest
import torch

import recurra as rc
from recurra.cli.main import run

WORDS = "the little brown fox jumps"


@pytest.mark.parametrize("count", [1, 2, 5, 8, 9])
def test_heights(count: int) -> None:
    words = [f"w{k}" for k in range(count)]
    balanced, chain = (rc.lecture.unroll_tree(words, shape=shape) for shape in ("balanced", "chain"))
    assert (balanced.height, chain.height) == (math.ceil(math.log2(count)), count - 1)
    for graph in (balanced, chain):
        assert [graph.tokens[leaf] for leaf in graph.leaves] == words
        assert graph.times_used() == {"W": count, "V": 1} | ({"U_1": count - 1, "U_2": count - 1} if count > 1 else {})


def test_brackets_keep_their_shape_and_labels() -> None:
    graph = rc.lecture.unroll_tree("(3 (2 not) (1 (2 so) (3 good)))")
    assert graph.parents == (-1, 0, 0, 2, 2)
    assert graph.labels == ("3", "2", "1", "2", "3")
    assert rc.lecture.unroll_tree("(3 (2 not) (1 (2 so) (3 good)))", shape="chain").parents == (-1, 0, 1, 1, 0)


def test_sizes_are_those_of_the_network_written_out() -> None:
    """Three words as a chain: h = tanh(W x + b + Σ U_k h_k), the derivative by the chain rule."""
    torch.manual_seed(0)
    network = rc.Tree(2, 3, composition="plain").double().requires_grad_(False)
    x = torch.randn(5, 2).double()
    graph = rc.lecture.unroll_tree("a b c", shape="chain", network=network, x=x)
    plain = network.composition
    U = plain.U.split(3, dim=1)

    def h(n: int, *children: torch.Tensor) -> torch.Tensor:
        return torch.tanh(plain.W @ x[n] + plain.b + sum((U[k] @ c for k, c in enumerate(children)), torch.zeros(3)))

    def slope(state: torch.Tensor) -> torch.Tensor:
        return torch.diag(1 - state**2)

    a, b, c = h(2), h(3), h(4)  # node 0 has the children 1 and c, node 1 has a and b
    inner = h(1, a, b)
    top = slope(h(0, inner, c))
    expected = {
        2: top @ U[0] @ slope(inner) @ U[0] @ slope(a) @ plain.W,
        3: top @ U[0] @ slope(inner) @ U[1] @ slope(b) @ plain.W,
        4: top @ U[1] @ slope(c) @ plain.W,
    }
    assert {n: float(graph.sizes[n]) for n in expected} == pytest.approx(
        {n: matrix.norm().item() for n, matrix in expected.items()}
    )
    assert graph.sizes[:2].tolist() == [0, 0]  # they read no word


@pytest.mark.parametrize("size", [0.58332884, 0.1, 3e-9, 0.0])
def test_the_largest_gradient_fills_its_word(size: float) -> None:
    graph = replace(rc.lecture.unroll_tree("a b"), sizes=torch.tensor([0.0, size / 2, size]))
    boxes = {patch.get_gid(): patch for patch in graph.plot().axes[0].patches}
    assert boxes["node-x-2"].get_facecolor()[3] == pytest.approx(1 if size else 0.1)


def test_compositions_without_positions_share_one_matrix() -> None:
    graph = rc.lecture.unroll_tree(WORDS, network=rc.Tree(2, 3, composition="child-sum"))
    assert graph.times_used() == {"W": 5, "U": 8, "V": 1}


def test_the_picture_has_every_node_and_arrow(tmp_path) -> None:
    graph = rc.lecture.unroll_tree(WORDS)
    graph.plot(tmp_path / "tree.svg")
    svg = (tmp_path / "tree.svg").read_text()
    assert (svg.count('id="node-h-'), svg.count('id="node-x-')) == (9, 5)
    for node, parent in enumerate(graph.parents):
        assert node == 0 or f'id="arrow-{node}-{parent}"' in svg


@pytest.mark.parametrize(
    ("tree", "how", "match"),
    [
        ("", {}, "at least one word"),
        ("(1 a) (0 b)", {}, "one tree is drawn; there are 2"),
        ("(1 a", {}, "never closed"),
        (WORDS, {"shape": "round"}, "shape"),
        (WORDS, {"network": rc.Tree(2, 3), "x": torch.zeros(3, 2)}, "one input for each of the 9 nodes"),
        (["w"] * 101, {}, "room for 200 nodes"),
    ],
)
def test_refused(tree: str, how: dict, match: str) -> None:
    with pytest.raises(rc.RecurraError, match=match):
        rc.lecture.unroll_tree(tree, **how)


@pytest.mark.parametrize("composition", ["plain", "fold", "n-ary"])
def test_the_command(composition: str, tmp_path, capsys) -> None:
    file = tmp_path / "t.svg"
    how = ["--gradients", "4", "--composition", composition, "--plot", str(file)]
    assert run(["lecture", "tree", "(S (NP the small cat) (VP sat))", *how]) == 0
    assert "4 leaves, height 2" in capsys.readouterr().out
    assert file.exists()
