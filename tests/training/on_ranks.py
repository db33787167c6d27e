"""Commands of `recurra` on several ranks, one after another: `python -m torch.distributed.run … on_ranks.py COMMANDS`.

- `COMMANDS`: a file of JSON: a list of commands, each with its `arguments` and, to be stopped as Ctrl-C stops it, `stop`: the
  rank that gets the signal and the step in which it does.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch.distributed as dist

from recurra.cli.main import run
from recurra.data.batches import Batch
from recurra.training.distributed import Ranks, leave
from recurra.training.loop import Trainer

ADVANCE = Trainer.advance


def stop_at(stop: list[int] | None) -> None:
    """Send this process a signal in a given step, if it is the rank that is meant."""

    def advance(self: Trainer, batch: Batch) -> None:
        ADVANCE(self, batch)
        if stop == [self.ranks.rank, self.step]:
            signal.raise_signal(signal.SIGINT)

    Trainer.advance = advance


if __name__ == "__main__":
    store, rank, world = next(iter(dist.rendezvous("env://")))
    dist.init_process_group("gloo", store=dist.PrefixStore("tests", store), rank=rank, world_size=world)
    for command in json.loads(Path(sys.argv[1]).read_text()):
        stop_at(command.get("stop"))
        code = run(command["arguments"])
        if code:
            os._exit(code)  # at once: the other ranks may be waiting for this one
        dist.barrier()  # the first rank may still be writing what the next command reads
    leave(store, Ranks(rank, world))
    dist.destroy_process_group()
    left = {file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")}
    assert not any("gloo" in name for name in left), f"the group outlives its end: {left}"
