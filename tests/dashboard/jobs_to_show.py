"""Jobs in every condition that the dashboard has to show: flowing, backpressured, restarting, stalled, failed, done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from system import Cluster, given, recovering, wait_until, write_job
from tailed_source import TAILED_SOURCE
from wheels import write_wheel

FLOWING = """
import time

def paced(number):
    time.sleep(0.002)
    if number % 100 == 0:
        print("paced", number)
    return number

numbers = env.from_sequence(0, 10**12).name("Numbers").map(paced).name("Paced")
keyed = numbers.key_by(lambda number: number % 7 if number % 3 else 0)
keyed.reduce(lambda one, other: other).name("Latest of each key").print().name("Printed")
env.execute("orders to totals")
"""
BACKPRESSURED = """
import time

def slow(number):
    time.sleep(0.05)
    return number

keyed = env.from_sequence(0, 10**12).key_by(lambda number: number % 50)
keyed.map(slow).name("Slow lookup").slot_sharing_group("slow").print()
env.execute("backpressured")
"""
RESTARTING = """
def parsed(number):
    if number == 40:
        raise ValueError("no price in order 40")
    return number

env.from_sequence(0, 100).map(parsed).name("Parsed").print()
env.execute("restarting")
"""
STALLED = """
from millstream.common import Types
from millstream.datastream.aggregates import count

source = TailedSource({folder!r}, "busy", "silent")
events = env.from_source(source, STAMPED, "Orders", Types.TUPLE([Types.STRING(), Types.LONG()]))
events.key_by("f0").window(TumblingEventTimeWindows.of(Time.seconds(1))).aggregate(count()).name("Counts").print()
env.execute("stalled")
"""
FAILED = """
env.from_collection([1, 2]).map(lambda number: 1 // (number - 2)).name("Divided").print()
env.execute("failed")
"""
FINISHED = """
env.from_collection([1, 2]).print()
env.execute("finished")
"""
PROGRAM = """
def main():
    import sys
    from millstream.datastream import StreamExecutionEnvironment
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).key_by(lambda number: number).map(abs).name("Of a key").print()
    env.execute(" ".join(sys.argv[1:]))
"""


@dataclass(frozen=True)
class Jobs:
    """Their ids, where a savepoint of the flowing one is, and a wheel that was not uploaded."""

    flowing: str
    backpressured: str
    restarting: str
    stalled: str
    failed: str
    finished: str
    savepoint: str
    wheel: Path


def submit_all(cluster: Cluster, folder: Path) -> Jobs:
    """Returns when each is in its condition."""
    (folder / "busy").write_text("100\n200\n7500\n")
    (folder / "silent").write_text("50\n")
    restarts = given(
        "restart-strategy.type=fixed-delay",
        "restart-strategy.fixed-delay.attempts=1000",
        "restart-strategy.fixed-delay.delay=3s",
        "restart-strategy.same-error-limit=0",
    )
    checkpoints = given(
        *recovering(folder / "checkpoints", "2s"),
        "execution.checkpointing.externalized-checkpoint-retention=RETAIN_ON_CANCELLATION",
        f"execution.checkpointing.savepoint-dir={folder / 'savepoints'}",
    )
    stalled = TAILED_SOURCE + dedent(STALLED.format(folder=str(folder)))
    flowing = cluster.submit_running(write_job(folder, "flowing", FLOWING), *checkpoints, parallelism=2)
    cluster.cli("savepoint", "-m", cluster.rest, flowing)
    savepoint = cluster.get(f"/jobs/{flowing}/checkpoints")["latest"]["savepoint"]["external_path"]
    jobs = Jobs(
        flowing=flowing,
        backpressured=cluster.submit(write_job(folder, "backpressured", BACKPRESSURED)),
        restarting=cluster.submit(write_job(folder, "restarting", RESTARTING), *restarts),
        stalled=cluster.submit(write_job(folder, "stalled", stalled)),
        failed=cluster.submit(write_job(folder, "failed", FAILED)),
        finished=cluster.submit(write_job(folder, "finished", FINISHED)),
        savepoint=savepoint,
        wheel=write_wheel(folder, {"otherjob.py": PROGRAM}, name="otherjob", entry="otherjob:main"),
    )
    cluster.upload(write_wheel(folder, {"tinyjob.py": PROGRAM}, entry="tinyjob:main"))
    cluster.wait_for(jobs.failed, "FAILED")
    cluster.wait_for(jobs.finished, "FINISHED")
    cluster.wait_for_checkpoint(jobs.flowing)

    def stands_still() -> bool:
        return "WATERMARK_HELD_BACK" in [f["kind"] for f in cluster.get(f"/jobs/{jobs.stalled}/stall")["findings"]]

    wait_until(stands_still, "the stalled job to stand still")
    wait_until(lambda: cluster.get(f"/jobs/{jobs.restarting}")["restarts"] > 0, "a restart")

    def is_backpressured() -> bool:
        vertices = cluster.get(f"/jobs/{jobs.backpressured}")["vertices"]
        return any(vertex["metrics"]["accumulated-backpressured-time"] > 500 for vertex in vertices)

    wait_until(is_backpressured, "a backpressured vertex")
    return jobs
