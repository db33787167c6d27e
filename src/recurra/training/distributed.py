"""Several processes that train one model: `torchrun --nproc-per-node=2 -m recurra train …`.

Every rank has the same weights and its own streams. Losses are divided by the number of tokens of all ranks before their
gradients are summed, so that the sum is the gradient of one process with the whole batch. A recurrent network's gradients
are complete only when back-propagation has come to its first step, so there is nothing to overlap: one sum over one buffer.
"""

from __future__ import annotations

import itertools
import math
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

# Before any group is made: its functions have the group of the time of their definition as a default argument. torch's optimizers
# import it late, and the group then outlives `destroy_process_group`: its threads run until Python itself ends, and may abort it.
import torch.distributed.nn.functional
from torch import Tensor, nn
from torch.distributed.distributed_c10d import _set_pg_timeout

from recurra.errors import OptionError, RunError, quoted

WAIT, PATIENCE = "RECURRA_RANKS_WAIT", 50.0
"""Seconds in which all ranks must come, and the variable that changes them."""
CONNECTING, CONNECTED = 5.0, 10.0
"""Seconds for a connection to a host that answers; and the least for ranks that are all there to connect with each other."""
WORKING = timedelta(minutes=30)
"""How long a rank waits for the others once they are connected: one that reads or evaluates may take long, and one that dies
closes its connection, which is seen at once."""
LEAVING = timedelta(seconds=50)
"""How long a rank waits for the others when all are done."""
ASKED, SILENT = 10, 40
"""Seconds after which the kernel asks a machine that says nothing whether it is there, and after which one that never answers is
gone: its kernel answers while it runs, however busy its rank is."""


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this is. `Ranks()` is one that is alone: nothing is sent anywhere."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        """The rank that prints and writes."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all ranks, in place."""
        if self.world > 1:
            with _together():
                dist.all_reduce(values)
        return values

    def sum_gradients(self, parameters: list[nn.Parameter], *others: Tensor) -> list[Tensor]:
        """Replace every gradient by its sum over all ranks; the sums of other numbers too. One message for all."""
        if self.world == 1:
            return list(others)
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        values = [parameter.grad for parameter in parameters if parameter.grad is not None] + list(others)
        flat = self.sum(torch.cat([value.reshape(-1).to(values[0].dtype) for value in values]))
        parts = [
            part.view_as(value)
            for part, value in zip(flat.split([value.numel() for value in values]), values, strict=True)
        ]
        for parameter, part in zip(parameters, parts, strict=False):
            parameter.grad = part
        return parts[len(parameters) :]

    def share(self, value: Any) -> Any:
        """What the first rank has, on all of them."""
        if self.world == 1:
            return value
        found = [value]
        with _together():
            dist.broadcast_object_list(found, src=0)
        return found[0]

    def gather(self, values: Tensor) -> list[Tensor]:
        """What every rank has, in their order; all have the same shape."""
        if self.world == 1:
            return [values]
        found = [torch.empty_like(values) for _ in range(self.world)]
        with _together():
            dist.all_gather(found, values.contiguous())
        return found


@contextmanager
def _together() -> Iterator[None]:
    """What all ranks do at once. One that has died or left ends the others, each with one line."""
    try:
        yield
    except RuntimeError as error:  # of the connection: torch has no narrower name for it
        raise RunError(
            "another rank has ended, or cannot be reached any more, so this one ends too. The last checkpoint is kept: see what "
            f"that rank said, then go on with train --resume. ({str(error).splitlines()[0][:100] if str(error) else error!r})"
        ) from error


@contextmanager
def join(device: str) -> Iterator[Ranks]:
    """The ranks that `torchrun` (or Slurm, or Ray) has started, until the block ends; alone where nobody has.

    ```python
    with rc.training.join("cpu") as ranks:
        print(ranks.rank, ranks.world)                              # 0 1 where nobody has
    ```
    """
    world = int(_number("WORLD_SIZE", 1))
    if world == 1:
        yield Ranks()
        return
    if dist.is_initialized():  # by whoever called us: it is theirs to end
        yield Ranks(dist.get_rank(), dist.get_world_size(), int(_number("LOCAL_RANK", 0)))
        return
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise OptionError(
            f"WORLD_SIZE={world} asks for {world} processes, but {', '.join(missing)} is not set. Start them with torchrun."
        )
    ranks = Ranks(int(_number("RANK", 0)), world, int(_number("LOCAL_RANK", 0)))
    if device == "cuda":
        torch.cuda.set_device(ranks.local_rank)
    before = _connections()
    store, left = _meet(ranks)
    name, within = "nccl" if device == "cuda" else "gloo", timedelta(seconds=left)
    with (
        _together()
    ):  # a rank that dies here has no connection yet whose end the others could see: they must not wait long
        dist.init_process_group(name, store=store, rank=ranks.rank, world_size=world, timeout=within)
    _set_pg_timeout(WORKING)
    for handle in _connections() - before:
        _end_with_machine(handle)
    try:
        yield ranks
        leave(store, ranks)
    finally:
        dist.destroy_process_group()


def _connections() -> set[int]:
    """The sockets of this process; none where the system does not list them, or has no limits to set for them."""
    found, folder = set[int](), "/proc/self/fd"
    for name in os.listdir(folder) if os.path.isdir(folder) and hasattr(socket, "TCP_USER_TIMEOUT") else ():
        with suppress(OSError):  # the listing itself had a handle, which is closed
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                found.add(int(name))
    return found


def _end_with_machine(handle: int) -> None:
    """Let the kernel close a connection to a machine that has vanished without closing it. Nobody else would: torch waits as long
    for it as for one that works."""
    try:
        connection = socket.socket(fileno=handle)
    except OSError:  # closed since it was listed
        return
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (
            (socket.TCP_KEEPIDLE, ASKED),
            (socket.TCP_KEEPINTVL, ASKED),
            (socket.TCP_KEEPCNT, SILENT // ASKED - 1),
            (socket.TCP_USER_TIMEOUT, 1000 * SILENT),  # the same for what was sent and not confirmed
        ):
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
    except OSError:  # not a connection to a machine
        pass
    finally:
        connection.detach()


_joined = itertools.count()


def _meet(ranks: Ranks) -> tuple[Any, float]:
    """The store that all ranks share, once all of them are there, and the seconds that they then have to connect."""
    patience = _number(WAIT, PATIENCE)
    until = time.monotonic() + patience
    try:
        if not ranks.is_first:
            _knock(until)
        torch_distributed: Any = dist  # it has these names, and does not declare them
        within = timedelta(seconds=patience if ranks.is_first else CONNECTING)
        store, _, _ = next(iter(torch_distributed.rendezvous("env://", ranks.rank, ranks.world, timeout=within)))
        store = torch_distributed.PrefixStore(f"recurra-{next(_joined)}", store)
        store.set(f"here-{ranks.rank}", "1")
        left = max(1.0, until - time.monotonic())
        store.wait([f"here-{k}" for k in range(ranks.world)], timedelta(seconds=left))
    except (RuntimeError, ValueError, OSError) as error:
        raise RunError(
            f"not all of the {ranks.world} ranks came within {patience:g} s: one has ended, or cannot be reached. See what it "
            f"said, and start all again; where starting takes longer, set {WAIT} to more seconds."
        ) from error
    return store, max(min(CONNECTED, patience), until - time.monotonic())


def _number(name: str, default: float) -> float:
    """A variable of the environment that is a number."""
    text = os.environ.get(name, "")
    try:
        found = float(text) if text else default
    except ValueError:
        found = math.nan
    if not 0 <= found < 1e9:
        raise OptionError(f"{name} must be a number from 0 on; it is {quoted(text)}. Set it anew, or leave it out.")
    return found


def _knock(until: float) -> None:
    """Wait for the host of the store. torch would do so for up to twice the time that it is given."""
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    while True:
        try:
            socket.create_connection(address, CONNECTING).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def leave(store: Any, ranks: Ranks) -> None:
    """End together. A barrier of the group itself is not enough: a rank is through it before the others have read its last
    message, and closes the connection under them, which aborts them. The store knows when all are through; its host goes last."""
    with _together():
        dist.barrier()
        store.set(f"through-{ranks.rank}", "1")
        store.wait([f"through-{k}" for k in range(ranks.world)], LEAVING)
    with suppress(RuntimeError):
        if ranks.is_first:
            store.wait([f"gone-{k}" for k in range(1, ranks.world)], LEAVING)
        else:
            store.set(f"gone-{ranks.rank}", "1")
