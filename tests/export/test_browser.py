"""The page of `examples/browser` writes text in a real browser, with ONNX Runtime Web from the package index."""

import functools
import http.server
import shutil
import subprocess
import tarfile
import threading
from pathlib import Path

import pytest

import recurra as rc

PAGE = Path(__file__).parents[2] / "examples" / "browser" / "index.html"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@pytest.mark.slow
def test_the_page_writes_what_the_model_learned(tmp_path):
    playwright = pytest.importorskip("playwright.sync_api")
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("there is no Chromium here")
    packed = subprocess.run(["npm", "pack", "-s", "onnxruntime-web"], cwd=tmp_path, capture_output=True, text=True)
    if packed.returncode:
        pytest.skip(f"onnxruntime-web cannot be had: {packed.stderr[:100]}")
    with tarfile.open(next(tmp_path.glob("*.tgz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    site = tmp_path / "site"
    site.mkdir()
    shutil.copy(PAGE, site)
    (tmp_path / "package" / "dist").rename(site / "ort")
    text = "the cat sat on the mat. the dog sat on the log. "
    run = rc.train("text", data=[text * 200], cell="gru", hidden_size=48, steps=300, batch_size=8, out=tmp_path / "run")
    run.export("onnx", site / "model")

    handler = functools.partial(Quiet, directory=site)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with playwright.sync_playwright() as started:
        page = started.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"]).new_page()
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        page.wait_for_selector("#write:not([disabled])", timeout=30_000)
        page.click("#write")
        page.wait_for_function("document.querySelector('#text').textContent.length > 200", timeout=30_000)
        written = page.inner_text("#text")
    server.shutdown()
    server.server_close()
    assert written.startswith("the ")
    words = written.replace(".", " ").split()[:-1]
    assert sum(word in text for word in words) / len(words) > 0.9
