"""Many jobs at once on a real cluster, with slot workers killed and jobs cancelled at random.

Whatever happens: every job ends, those that finished have exactly the right result, every slot is released, and no
process is left. The seed is printed with a failure; set STORM_SEED to run it again.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from system import ENDED, Cluster, running_cluster, wait_until, write_job

pytestmark = [pytest.mark.process, pytest.mark.alone]

BODY = """
import sys
from millstream.datastream.connectors.file_system import FileSink

count, folder = int(sys.argv[1]), sys.argv[2]
env.from_sequence(1, count).map(lambda x: (x % 11, x)).key_by(lambda t: t[0]) \\
    .filter(lambda t: t[1] % 97 == 0).sink_to(FileSink.for_json_lines(folder))
env.execute("storm")
"""


@pytest.fixture
def storm_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("storm"), 2, 3, **{"heartbeat.interval": "1 s"}) as made:
        yield made


@pytest.mark.timeout(900)
@pytest.mark.parametrize("jobs", [8, pytest.param(80, marks=pytest.mark.long)])
def test_every_job_ends_and_nothing_leaks(storm_cluster: Cluster, tmp_path: Path, jobs: int) -> None:
    seed = int(os.environ.get("STORM_SEED", random.randrange(1 << 30)))
    print(f"STORM_SEED={seed}")
    chance = random.Random(seed)
    script = write_job(tmp_path, "storm", BODY)
    plans = [(n, chance.randint(1, 3), chance.choice([20_000, 300_000, 2_000_000])) for n in range(jobs)]

    def submit(plan: tuple[int, int, int]) -> str:
        number, parallelism, count = plan
        arguments = (str(count), str(tmp_path / str(number)))
        return storm_cluster.submit(script, parallelism=parallelism, arguments=arguments)

    with ThreadPoolExecutor(2) as pool:
        submitted = dict(zip(plans, pool.map(submit, plans), strict=True))
    for _ in range(jobs // 2):
        if chance.random() < 0.5:
            with suppress(ProcessLookupError, IndexError):
                os.kill(chance.choice(storm_cluster.workers()), signal.SIGKILL)
        else:
            storm_cluster.request("PATCH", f"/jobs/{chance.choice(list(submitted.values()))}?mode=cancel")
    for (number, _, count), job_id in submitted.items():
        state = storm_cluster.wait_for(job_id, *ENDED, deadline=300)
        if state == "FINISHED":
            lines = [line for part in (tmp_path / str(number)).glob("part-*") for line in part.read_text().splitlines()]
            assert sorted(json.loads(line)[1] for line in lines) == list(range(97, count + 1, 97)), f"seed {seed}"
    wait_until(lambda: storm_cluster.free_slots() == 6, f"all slots to be free (seed {seed})")
    wait_until(lambda: not storm_cluster.workers(), f"all workers to be gone (seed {seed})")
