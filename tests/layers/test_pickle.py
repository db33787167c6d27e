"""Layers are pickled whole: by the name of a cell of the catalogue, by the graph of any other."""

import multiprocessing
import pickle

import pytest
import torch

import recurra as rc
from tests.helpers import CELLS


@pytest.mark.parametrize("cell", CELLS)
def test_a_layer_comes_back_with_its_cell(cell):
    layer = rc.Recurrent(CELLS[cell], 3, 8, layers=2, bidirectional=True, engine="eager").eval()
    again = pickle.loads(pickle.dumps(layer))
    x = torch.randn(2, 5, 3)
    assert torch.equal(layer(x).outputs, again(x).outputs)
    assert again.cell.graph.nodes == layer.cell.graph.nodes


def test_a_cell_of_the_catalogue_stays_itself():
    assert pickle.loads(pickle.dumps(rc.find_cell("lstm"))) is rc.find_cell("lstm")


def test_a_module_is_saved_whole(tmp_path):
    layer = rc.Recurrent("gru", 3, 8)
    torch.save(layer, tmp_path / "layer.pt")
    again = torch.load(tmp_path / "layer.pt", weights_only=False)
    x = torch.randn(2, 5, 3)
    assert torch.equal(layer(x).outputs, again(x).outputs)


def _run(layer, x):
    torch.set_num_threads(1)
    with torch.no_grad():
        return layer(x).outputs.numpy()


def test_a_spawned_process_gets_it():
    @rc.cell
    def local(x, U, h):
        return rc.tanh(x.h + 0.5 * U.h(h))

    layer, x = rc.Recurrent(local, 3, 8, engine="eager"), torch.randn(2, 5, 3)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert (pool.apply(_run, (layer, x)) == _run(layer, x)).all()


def test_cells_of_modules_and_of_functions_pickle_and_what_cannot_says_what_to_do():
    from tests.helpers import two_speeds

    assert pickle.loads(pickle.dumps(two_speeds)).graph.nodes == two_speeds.graph.nodes

    @rc.cell
    def wasteful(x, U, h):
        rc.norm(U.h(h), "lost")
        return rc.tanh(x.h)

    with pytest.raises(rc.CellError, match=r"gain_lost is computed and never used\. Take it out"):
        pickle.dumps(rc.Recurrent(wasteful, 2, 3))

    @rc.cell
    def deep(x, U, h):
        for _ in range(300):
            h = rc.tanh(h + x.h)
        return h

    with pytest.raises(rc.CellError, match=r"nested .* deep.* Write it shorter, or save state_dict\(\)"):
        pickle.dumps(rc.Recurrent(deep, 2, 3))
