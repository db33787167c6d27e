"""The tests that need a GPU, in as many processes as there are cores: most of their time goes into compiling kernels.

python -m tests.gpu
"""

import os
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def main() -> int:
    began, count = time.perf_counter(), len(os.sched_getaffinity(0))
    files = [str(path) for path in Path(__file__).parent.rglob("test_*.py") if "mark.gpu" in path.read_text()]
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-p", "no:cacheprovider", "--durations=3", *sorted(files)]

    def run(k: int) -> tuple[int, str]:
        environment = {**os.environ, "RECURRA_SHARD": f"{k}/{count}", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    totals, failed = Counter[str](), False
    with ThreadPoolExecutor(count) as pool:
        results = list(pool.map(run, range(count)))
    for code, said in results:
        last = said.strip().splitlines()[-1] if said.strip() else ""
        for number, what in re.findall(r"(\d+) (passed|failed|skipped|errors?)", last):
            totals[what] += int(number)
        if code:
            failed = True
            print(said)
    seconds = time.perf_counter() - began
    print(f"GPU tests: {', '.join(f'{n} {what}' for what, n in sorted(totals.items()))} in {seconds:.0f} s")
    return int(failed or not totals["passed"])


if __name__ == "__main__":
    sys.exit(main())
