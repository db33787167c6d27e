"""Several ranks make the steps of one with the whole batch: the same losses, the same weights, stopped and resumed on either."""

import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from recurra.cli.main import run
from recurra.errors import OptionError, RunError
from recurra.runs.metrics import read_rows
from recurra.training import distributed
from recurra.training.distributed import Ranks, join
from tests.training.on_ranks import ADVANCE, Trainer, stop_at

STEPS = 50
NEAR = 1e-9
TOGETHER = Path(__file__).with_name("on_ranks.py")
COMMON = [
    "model.hidden_size=6",
    "model.embedding_size=4",
    "model.dropout=0.0",
    "model.input_dropout=0.0",
    f"training.steps={STEPS}",
    "training.warmup=5",
    "training.validate_every=10",
    "training.save_every=20",
    "dtype=float64",
    "engine=eager",
]
CASES = {
    "lanes, every": ["text", "training.batch_size=6", "training.truncation=every:8", "training.reset=0.05"],
    "lanes, window": ["text", "training.batch_size=4", "training.truncation=window:5", "training.length=10"],
    "ragged sequences": ["names", "training.batch_size=7", "training.l1=0.001"],
    "ragged sequences, one by one": ["names", "training.batch_size=1", "training.truncation=every:3"],
    "sums over time": ["names", "training.batch_size=7", "training.over_time=sum", "model.learn_initial=true"],
    "made up": ["long-memory", "training.batch_size=5", "data.length=12"],
    "pairs": ["addition", "training.batch_size=7", "data.count=100", "model.context=attention"],
}
STOPPED = {name: CASES[name] for name in ("lanes, every", "lanes, window", "ragged sequences")}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text and with lines of different lengths: 64 of them are for training, 9 batches of 7 and one of 1."""
    folder = tmp_path_factory.mktemp("ranks")
    words = random.Random(0)
    text = " ".join(words.choice(["the", "cat", "sat", "on", "a", "mat.\n"]) for _ in range(500))
    (folder / "text.txt").write_text(text + "\n")
    lines = ["".join(words.choice("abcde") for _ in range(words.randint(2, 12))) for _ in range(80)]
    (folder / "names.txt").write_text("\n".join(lines) + "\n")
    return folder


def command(place: Path, case: list[str], out: str) -> list[str]:
    recipe, *settings = case
    data = [] if recipe in ("long-memory", "addition") else [f"data.path={place / recipe}.txt"]
    common = [each for each in COMMON if recipe != "long-memory" or "embedding" not in each]
    return ["train", recipe, *data, *common, *settings, "--out", str(place / out)]


def resumption(place: Path, out: str) -> list[str]:
    return ["train", "--resume", str(place / out)]


def start(arguments: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *arguments],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]", seconds: float = 40) -> str:
    """What the ranks said, once they have ended; those that hang are ended, and the test with them."""
    try:
        return process.communicate(timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        for rank in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            os.kill(int(rank), signal.SIGKILL)  # torchrun ends when they have
        pytest.fail(f"the ranks did not end within {seconds} s: {process.communicate()[1][-2000:]}")


def run_on_two(place: Path, commands: list[dict[str, Any]]) -> None:
    """Commands on two ranks, in one start of the two processes."""
    file = place / "commands.json"
    file.write_text(json.dumps(commands))
    process = start([str(TOGETHER), str(file)])
    said = finish(process)
    assert process.returncode == 0, said


def stopped_at(monkeypatch: pytest.MonkeyPatch, arguments: list[str], step: int) -> None:
    """The command on one rank, stopped by a signal in a step."""
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", ADVANCE)
        stop_at([0, step])
        assert run(arguments) == 0


def rows(folder: Path) -> list[dict[str, float]]:
    return read_rows(folder / "metrics.jsonl").rows


def assert_same_run(one: Path, other: Path) -> None:
    """The same rows and the same weights, averaged ones too, to the rounding of a sum in another order."""
    ours, theirs = rows(one), rows(other)
    assert [row.keys() for row in ours] == [row.keys() for row in theirs]
    assert [row["step"] for row in ours if "loss" in row] == list(range(1, STEPS + 1))
    assert sum("valid" in row for row in ours) == STEPS // 10
    for a, b in zip(ours, theirs, strict=True):
        assert a == pytest.approx(b, rel=NEAR, abs=NEAR)
    for file in ("last/weights", "best/weights", "last/resume"):
        a, b = (load_file(folder / f"checkpoints/{file}.safetensors") for folder in (one, other))
        numbers = {name for name in a | b if not name.startswith("random.")}  # each rank has its own
        assert numbers <= a.keys() & b.keys()
        for name in numbers:
            torch.testing.assert_close(a[name], b[name], rtol=NEAR, atol=NEAR, msg=lambda m, n=name: f"{n}: {m}")


@pytest.fixture(scope="module")
def alone(place: Path) -> None:
    """Every case on one rank, in the folder `alone-CASE`."""
    for name, case in CASES.items():
        assert run(command(place, case, f"alone-{name}")) == 0


@pytest.fixture(scope="module")
def together(place: Path) -> None:
    """Every case on two ranks, in the folder `together-CASE`."""
    run_on_two(place, [{"arguments": command(place, case, f"together-{name}")} for name, case in CASES.items()])


@pytest.mark.usefixtures("alone", "together")
class TestTwoRanks:
    @pytest.mark.parametrize("name", CASES)
    def test_they_make_the_steps_of_one(self, place: Path, name: str) -> None:
        assert_same_run(place / f"together-{name}", place / f"alone-{name}")

    def test_the_loss_falls(self, place: Path) -> None:
        losses = [row["loss"] for row in rows(place / "together-lanes, every") if "loss" in row]
        assert losses[-1] < losses[0] - 0.1


@pytest.mark.usefixtures("alone")
class TestStopped:
    def test_on_two_ranks_and_resumed_on_one(self, place: Path) -> None:
        """The rank that is asked is the first in one run and the second in another: all stop at the same step."""
        asked = {name: [k % 2, 23 + k] for k, name in enumerate(STOPPED)}
        run_on_two(
            place,
            [
                {"arguments": command(place, case, f"two-one-{name}"), "stop": asked[name]}
                for name, case in STOPPED.items()
            ],
        )
        for name, (_, step) in asked.items():
            folder = place / f"two-one-{name}"
            assert step <= rows(folder)[-1]["step"] <= step + 1, "it did not stop where it was asked to"
            assert (
                json.loads((folder / "checkpoints/last/manifest.json").read_text())["step"] == rows(folder)[-1]["step"]
            )
            assert run(resumption(place, f"two-one-{name}")) == 0
            assert_same_run(folder, place / f"alone-{name}")

    @pytest.mark.slow
    def test_on_one_rank_and_resumed_on_two(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for k, (name, case) in enumerate(STOPPED.items()):
            stopped_at(monkeypatch, command(place, case, f"one-two-{name}"), 23 + k)
            assert rows(place / f"one-two-{name}")[-1]["step"] == 23 + k
        run_on_two(place, [{"arguments": resumption(place, f"one-two-{name}")} for name in STOPPED])
        for name in STOPPED:
            assert_same_run(place / f"one-two-{name}", place / f"alone-{name}")

    @pytest.mark.slow
    def test_on_two_ranks_and_resumed_on_two_with_dropout(self, place: Path) -> None:
        """Each rank's own random numbers go on too: the same to the last bit."""
        dropout = [*CASES["lanes, every"], "model.dropout=0.3"]
        commands = [
            {"arguments": command(place, dropout, "whole")},
            {"arguments": command(place, dropout, "two-two"), "stop": [1, 23]},
            {"arguments": resumption(place, "two-two")},
        ]
        run_on_two(place, commands)
        for file in ("metrics.jsonl", *(f"checkpoints/last/{name}.safetensors" for name in ("weights", "resume"))):
            assert (place / "two-two" / file).read_bytes() == (place / "whole" / file).read_bytes(), file


def test_torchrun_passes_sigterm_on_and_a_checkpoint_is_kept(place: Path) -> None:
    arguments = [*command(place, CASES["lanes, every"], "long")]
    arguments[arguments.index(f"training.steps={STEPS}")] = "training.steps=1000000"
    process = start(["-m", "recurra", *arguments])
    deadline = time.monotonic() + 60
    while not (place / "long/metrics.jsonl").exists() or len(rows(place / "long")) < 5:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    said = finish(process, 25)  # torchrun kills what has not ended after 30
    assert "stopped by SIGTERM, saved" in said or "another rank was asked to stop" in said
    step = rows(place / "long")[-1]["step"]
    assert json.loads((place / "long/checkpoints/last/manifest.json").read_text())["step"] == step


class TestAlone:
    """One rank sends nothing anywhere, and changes nothing."""

    def test_gradients_stay_what_they_are(self) -> None:
        layer = nn.Linear(3, 2)
        layer.weight.grad = torch.ones(2, 3)
        before = layer.weight.grad
        total, asked = torch.tensor(2.5), torch.tensor(1.0)
        found = Ranks().sum_gradients(list(layer.parameters()), total, asked)
        assert found[0] is total
        assert found[1] is asked
        assert layer.weight.grad is before
        assert torch.equal(before, torch.ones(2, 3))
        assert layer.bias.grad is None

    def test_sums_and_gathers_are_what_is_given(self) -> None:
        values = torch.arange(4.0)
        assert Ranks().sum(values) is values
        (found,) = Ranks().gather(values)
        assert found is values
        assert torch.equal(values, torch.arange(4.0))

    def test_nobody_else_is_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("WORLD_SIZE", raising=False)
        with join("cpu") as ranks:
            assert ranks == Ranks(rank=0, world=1)
            assert ranks.is_first
        assert not torch.distributed.is_initialized()


SLOW_RANK = """
import os, sys, time, torch
from recurra.training.distributed import join
rank = 0 if os.fork() else 1
os.environ["RANK"] = str(rank)
with join("cpu") as ranks:
    time.sleep(5 * rank)                    # longer than it may take to come
    total = ranks.sum(torch.ones(1))
if rank == 0:
    os.wait()
    print(float(total))
"""

FAR_RANK = """
import os, time
import torch
from recurra.errors import RunError
from recurra.training.distributed import join

try:
    with join("cpu") as ranks:
        print("joined", flush=True)
        while True:
            if ranks.rank == int(os.environ["SLEEPER"]):
                time.sleep(1000)
            ranks.sum(torch.ones(1))
except RunError as error:
    print(error)
"""


@pytest.fixture
def machines() -> Iterator[list[list[str]]]:
    """Two machines with a network between them, in so far as the kernel can tell: what starts a command on each. The second one
    vanishes when its device `eth` is set down."""
    names = [f"recurra-{os.getpid()}-{k}" for k in range(2)]
    made = subprocess.run(["ip", "netns", "add", names[0]], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"this user cannot make networks: {made.stderr.strip()}")
    subprocess.run(["ip", "netns", "add", names[1]], check=True)
    inside = [["ip", "netns", "exec", name] for name in names]
    try:
        link = ["ip", "link", "add", "eth", "netns", names[0], "type", "veth", "peer", "name", "eth", "netns", names[1]]
        subprocess.run(link, check=True)
        for k, within in enumerate(inside):
            subprocess.run([*within, "ip", "address", "add", f"10.77.0.{k + 1}/24", "dev", "eth"], check=True)
            for device in ("lo", "eth"):
                subprocess.run([*within, "ip", "link", "set", device, "up"], check=True)
        yield inside
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=True)


def test_the_kernel_closes_connections_to_a_machine_that_is_silent() -> None:
    """Within a minute, asked or in the middle of a message; those of before and what is no connection stay as they are."""
    before = distributed._connections()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as ours:
        assert {server.fileno(), ours.fileno()} == distributed._connections() - before
        distributed._end_with_machine(ours.fileno())
        asked = [
            ours.getsockopt(socket.IPPROTO_TCP, each)
            for each in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        ]
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert asked[0] + asked[1] * asked[2] < 60
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) < 60_000
        ours.send(b"it is open")
    for each in socket.socketpair():
        with each:
            distributed._end_with_machine(each.fileno())
            assert each.fileno() >= 0


@pytest.mark.slow
@pytest.mark.parametrize("is_silent", [False, True])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_machine_that_vanishes(machines: list[list[str]], rank: int, is_silent: bool) -> None:
    """Its connections stay open, and nothing comes: of a message on its way nobody says that it arrived, or nobody sends one. The
    rank on the other ends within a minute."""
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": f"10.77.0.{1 + rank}", "MASTER_PORT": "29500"}
    common |= {"SLEEPER": str(1 - rank if is_silent else -1)}
    ranks = [
        subprocess.Popen(
            [*machine, sys.executable, "-c", FAR_RANK],
            env=os.environ | common | {"RANK": str(k), "GLOO_SOCKET_IFNAME": "eth"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for k, machine in zip((rank, 1 - rank), machines, strict=True)
    ]
    try:
        for each in ranks:
            assert each.stdout is not None
            assert each.stdout.readline() == "joined\n"
        time.sleep(1)
        subprocess.run([*machines[1], "ip", "link", "set", "eth", "down"], check=True)
        said, _ = ranks[0].communicate(timeout=60)
        assert said.startswith("another rank has ended, or cannot be reached any more")
    finally:
        for each in ranks:
            each.kill()
            each.communicate()


class TestDead:
    """A rank that is waited for in vain ends the others with one line, soon."""

    @pytest.fixture
    def pair(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        found = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RECURRA_RANKS_WAIT": "1"}
        for name, value in found.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
        return found

    def fails(self, rank: int, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setenv("RANK", str(rank))
        began = time.monotonic()
        with pytest.raises(RunError) as caught, join("cpu"):
            pass
        assert time.monotonic() - began < 10
        assert not torch.distributed.is_initialized()
        return str(caught.value)

    @pytest.mark.parametrize("rank", [0, 1])
    @pytest.mark.usefixtures("pair")
    def test_before_it_came(self, rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
        assert "not all of the 2 ranks came within 1 s" in self.fails(rank, monkeypatch)

    def test_after_it_came_and_before_it_was_connected(
        self, pair: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Torch waits half an hour for it, unless it is told otherwise."""
        monkeypatch.setattr(distributed, "_joined", itertools.count(7))

        def come() -> None:
            store = torch.distributed.TCPStore("127.0.0.1", int(pair["MASTER_PORT"]), 2, is_master=False)
            torch.distributed.PrefixStore("recurra-7", store).set("here-1", "1")

        other = threading.Thread(target=come)
        other.start()
        assert "another rank has ended" in self.fails(0, monkeypatch)
        other.join()

    @pytest.mark.parametrize("name", ["WORLD_SIZE", "RANK", "RECURRA_RANKS_WAIT"])
    @pytest.mark.usefixtures("pair")
    def test_numbers_that_are_none(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RANK", "0")
        monkeypatch.setenv(name, "two")
        with pytest.raises(OptionError, match=f"{name} must be a number"), join("cpu"):
            pass

    @pytest.mark.slow
    def test_one_that_is_slow_is_not_dead(self, pair: dict[str, str]) -> None:
        done = subprocess.run(
            [sys.executable, "-c", SLOW_RANK],
            env=os.environ | pair | {"RECURRA_RANKS_WAIT": "3"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == "2.0\n", done.stderr
