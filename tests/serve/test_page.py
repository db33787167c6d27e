"""The commands on the page of the server run as they stand there, against a server on another port."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import recurra as rc

PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_every_curl_on_the_page_is_answered(text_run: rc.Run) -> None:
    blocks = [block for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S) if "curl" in block]
    assert sum(block.count("curl ") for block in blocks) >= 7
    with rc.serve(text_run, port=0, store="memory", background=True) as server:
        for block in blocks:
            script = block.replace("localhost:8100", server.url.removeprefix("http://")).replace(
                "curl -s", "curl -f -s"
            )
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, timeout=60
            )
            assert done.returncode == 0, (done.stdout, done.stderr)
            assert "error" not in done.stdout


def test_the_container_runs_the_command_as_nobody_special() -> None:
    (container,) = re.findall(r"^```dockerfile\n(.*?)^```", PAGE, re.M | re.S)
    assert container.index("USER recurra") < container.index('CMD ["recurra", "serve"')
    assert "recurra[serve,redis]" in container
    assert "/readyz" in container
