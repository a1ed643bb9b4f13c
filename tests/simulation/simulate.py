"""`make simulate SEEDS=1000..2000`, or `SEEDS=17`: schedules of faults under other seeds than those of the tests.

`SHAPE=long` has long ones. All cores are used. A seed that fails is run again, with what the services logged, and the
story of the job, task or checkpoint that it failed over is printed; the exit status is 1 then.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from schedules import run_all
from shapes import SHAPES
from simulation import Outcome

_CHUNK = 50


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", help="one seed, or the first and the last: 1000..2000")
    parser.add_argument("--shape", choices=SHAPES, default="short")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    chunks = [(seeds[at : at + _CHUNK], arguments.shape) for at in range(0, len(seeds), _CHUNK)]
    began = time.monotonic()
    outcomes: list[Outcome] = []
    failures: list[str] = []
    # Forked, they would end at the first error of an operator: `leave_if_forked`.
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        for done, failed in pool.map(_run, chunks):
            outcomes += done
            failures += failed
            for failure in failed:
                print(failure, flush=True)
    ends = Counter(end.value for run in outcomes for end in run.ends)
    print(
        f"{len(outcomes)} schedules in {time.monotonic() - began:.0f} s, and {len(failures)} that failed; "
        f"jobs: {dict(ends)}, restarts: {sum(run.restarts for run in outcomes)}, "
        f"from checkpoints: {sum(run.restored for run in outcomes)}, commits: {sum(run.commits for run in outcomes)}"
    )
    return 1 if failures else 0


def _run(chunk: tuple[range, str]) -> tuple[list[Outcome], list[str]]:
    """In a process of its own. After a seed that failed, the next ones are run all the same."""
    seeds, shape = chunk
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run_all(seeds, folder, SHAPES[shape], lambda failed: failures.append(str(failed)))
    return outcomes, failures


if __name__ == "__main__":
    sys.exit(main())
