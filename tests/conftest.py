"""What every test starts from: one thread, one seed, axes of annotations checked, GPU tests skipped where there is none."""

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

UNCHECKED = {"__init__", "recurrent", "convert", "choose", "operators", "triton_runtime"}
"""`recurrent` and `convert` are what users call: they check their arguments, and those errors are tested. `choose` sees no
tensor, and names a protocol that cannot be checked at run time; `triton_runtime` is compiled by Triton."""


def check_axes() -> None:
    """Check the axes in the annotations of engines and layers while tests run, where the checkers are installed."""
    if not (importlib.util.find_spec("jaxtyping") and importlib.util.find_spec("beartype")):
        return
    from jaxtyping import install_import_hook

    spec = importlib.util.find_spec("recurra")
    assert spec is not None
    assert spec.submodule_search_locations
    source = Path(spec.submodule_search_locations[0])
    files = [file for room in ("engines", "layers") for file in (source / room).rglob("*.py")]
    modules = [".".join(("recurra", *file.relative_to(source).with_suffix("").parts)) for file in files]
    checked = [name for name in modules if name.rpartition(".")[2] not in UNCHECKED]
    install_import_hook(checked, "beartype.beartype")


check_axes()
os.environ.setdefault("RECURRA_OPTIMIZE", "1")  # kernels are compiled for their numbers here, not for their speed
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before the first import of triton, which torch's compiler imports too
torch.set_num_threads(1)
settings.register_profile("recurra", max_examples=12, deadline=None, derandomize=True, database=None)
settings.load_profile("recurra")


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def cut_off(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """Trainings inside `with cut_off():` are asked to stop during their first step, as by SIGTERM."""
    from recurra.tasks import following

    @contextmanager
    def block() -> Iterator[None]:
        class Asked(following._Stop):
            def __init__(self) -> None:
                super().__init__()
                self.asked = "SIGTERM"

        with monkeypatch.context() as patch:
            patch.setattr(following, "_Stop", Asked)
            yield

    return block


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium for all tests that look at pages."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with playwright.sync_playwright() as started:
        path = found or started.chromium.executable_path
        if not Path(path).exists():
            pytest.skip("no Chromium is installed")
        opened = started.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "RECURRA_SHARD" in os.environ:  # every so many-th of the tests that are left, for `tests.gpu`
        first, count = map(int, os.environ["RECURRA_SHARD"].split("/"))
        items[:] = items[first::count]
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
