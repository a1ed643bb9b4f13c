"""Exactly-once under fire: a keyed pipeline into the file sink, while processes die and storage fails at random.

Slot workers and task managers are killed, workers freeze until their job has declared them lost and then continue, and
checkpoints find their folder blocked, in an order derived from a seed. At the end the job is drained and stopped: the
committed files must contain the effect of every record that the savepoint counts, once. The seed is printed with a
failure; set CHAOS_SEED to run it again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from counted_numbers import KEYS, body, check, counted
from processes import frozen
from system import Cluster, given, running_cluster, wait_until, write_job

pytestmark = [pytest.mark.process, pytest.mark.alone, pytest.mark.slow]

LANES = 2
POLICIES = ("on_checkpoint_rolling_policy()", "default_rolling_policy(part_size=2048)")
"""With either policy most checkpoints contain parts to commit: a wrong commit shows only where there is one."""


@pytest.fixture
def chaos_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    options = {"heartbeat.interval": "500 ms", "heartbeat.timeout": "8 s"}
    with running_cluster(tmp_path_factory.mktemp("chaos"), 2, 2, **options) as made:
        yield made


class Chaos:
    """Random faults."""

    def __init__(self, cluster: Cluster, job_id: str, checkpoints: Path, chance: random.Random) -> None:
        self.cluster = cluster
        self.job_id = job_id
        self.folder = checkpoints / job_id
        self.chance = chance

    def newest(self) -> int:
        """The number of the newest completed checkpoint."""
        found = [int(file.parent.name[4:]) for file in self.folder.glob("chk-*/_metadata.json")]
        return max(found, default=0)

    def kill_something(self) -> str:
        kind = self.chance.random()
        if kind < 0.1:
            return self.freeze_a_worker()
        if kind < 0.3:
            self.cluster.restart("taskmanager")
            return "task manager"
        workers = wait_until(self.cluster.workers, "a slot worker to kill")
        with suppress(ProcessLookupError):
            self.cluster.kill(self.chance.choice(workers))
        return "slot worker"

    def freeze_a_worker(self) -> str:
        """It wakes up when its tasks have effectively been replaced: whatever it still does must not count."""
        before = self.cluster.attempts(self.job_id)
        worker = self.chance.choice(wait_until(self.cluster.workers, "a slot worker to freeze"))

        def noticed() -> bool:
            return self.cluster.state(self.job_id) == "RESTARTING" or self.cluster.attempts(self.job_id) != before

        with suppress(ProcessLookupError), frozen(worker):
            wait_until(noticed, "the frozen worker to be noticed")
        return "frozen slot worker"

    def block_storage(self) -> None:
        """Puts plain files at the paths of the next checkpoints' folders: nothing can be written there."""
        first = self.newest() + 1
        blocked = [self.folder / f"chk-{first + n}" for n in range(self.chance.randint(3, 8))]
        for place in blocked:
            with suppress(OSError):
                place.touch(exist_ok=False)
        self.wait_for_checkpoint()
        for place in blocked:
            if place.is_file():
                place.unlink(missing_ok=True)

    def wait_for_checkpoint(self) -> None:
        """Waits for one that was triggered after all faults: whatever was killed has been replaced."""
        self.cluster.wait_for_checkpoint(self.job_id)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kills", [30, pytest.param(500, marks=pytest.mark.long)])
def test_no_record_is_lost_or_counted_twice(chaos_cluster: Cluster, tmp_path: Path, kills: int) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(1 << 30)))
    print(f"CHAOS_SEED={seed}")
    chance = random.Random(seed)
    policy = chance.choice(POLICIES)
    print(policy)
    script = write_job(tmp_path, "fire", body(2000, policy))
    options = [
        "execution.checkpointing.interval=150ms",
        f"execution.checkpointing.dir={tmp_path / 'checkpoints'}",
        "execution.checkpointing.tolerable-failed-checkpoints=1000000",
        f"execution.checkpointing.incremental={str(chance.random() < 0.5).lower()}",
        f"execution.checkpointing.unaligned.enabled={str(chance.random() < 0.5).lower()}",
        "restart-strategy.type=fixed-delay",
        "restart-strategy.fixed-delay.attempts=1000000",
        "restart-strategy.fixed-delay.delay=50ms",
    ]
    print(options)
    output = tmp_path / "output"
    job_id = chaos_cluster.submit(script, *given(*options), parallelism=LANES, arguments=(str(output), "under fire"))
    chaos_cluster.wait_for(job_id, "RUNNING")
    chaos = Chaos(chaos_cluster, job_id, tmp_path / "checkpoints", chance)
    for number in range(kills):
        print(f"kill {number}: {chaos.kill_something()}")
        if chance.random() < 0.1:
            chaos.block_storage()
        elif chance.random() < 0.6:
            chaos.wait_for_checkpoint()
    chaos.wait_for_checkpoint()
    chaos_cluster.cli("stop", "--drain", "-m", chaos_cluster.rest, "-p", str(tmp_path / "savepoints"), job_id)
    chaos_cluster.wait_for(job_id, "FINISHED")
    expected = counted(tmp_path / "savepoints")
    assert expected.keys() == set(range(KEYS))
    check(output, expected, LANES, f"CHAOS_SEED={seed}")
