"""Two-phase-commit sinks and collected results in a worker driven manually: their state in snapshots and restores."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import ClassVar

import pytest
from checkpoint_rig import CheckpointRig, PositionedSource, merged, operators
from msgspec.structs import replace
from worker_rig import chain

from millstream.core.jobs.plan import plan
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.records.batches import Batch
from millstream.core.snapshot import StateKind
from millstream.datastream.connectors.file_system import FileSink, RollingPolicy
from millstream.datastream.connectors.two_phase_commit import TwoPhaseCommitSink

SOURCE = plan.SourceSpec(PositionedSource(batch=5))


@pytest.fixture
def options() -> dict[str, str]:
    return {"execution.checkpointing.interval": "1 h"}


def feed(rig: CheckpointRig, task: TaskDeployment, rows: list[str]) -> None:
    """Gives the task rows, and has it process them."""
    rig.feed(task, rows)
    rig.turn_until(lambda: not rig.unread(task))


@pytest.mark.parametrize("savepoint", [False, True])
@pytest.mark.parametrize("policy", [RollingPolicy.on_checkpoint_rolling_policy(), RollingPolicy(part_size=1 << 20)])
@pytest.mark.parametrize(("old", "new"), [(1, 1), (2, 2), (2, 3), (3, 1)])
def test_a_file_sink_continues_under_any_parallelism(
    rig: CheckpointRig, tmp_path: Path, old: int, new: int, policy: RollingPolicy, savepoint: bool
) -> None:
    out = tmp_path / "out"
    sink_chain = chain(SOURCE, plan.SinkSpec(FileSink.for_row_format(out).with_rolling_policy(policy)))
    tasks = [rig.subtask(sink_chain, subtask, old) for subtask in range(old)]
    rig.deploy(*tasks)
    for number, task in enumerate(tasks):
        feed(rig, task, [f"before-{number}-{n}" for n in range(20)])
    acks = rig.checkpoint(1, *tasks, savepoint=savepoint)
    (state,) = operators(*acks)[1].states
    assert (state.name, state.kind) == ("transactions", StateKind.SINK_TRANSACTIONS)
    for task in tasks:
        feed(rig, task, ["lost"])
    rig.cancel(*(task.attempt_id for task in tasks))
    assert not list(out.glob("part-*"))
    again = [replace(rig.subtask(sink_chain, subtask, new, merged(acks)), attempt=1) for subtask in range(new)]
    rig.deploy(*again)
    assert {rig.state(task) for task in again} == {"RUNNING"}
    for number, task in enumerate(again):
        feed(rig, task, [f"after-{number}-{n}" for n in range(20)])
    rig.checkpoint(2, *again)
    rig.notice(2, True, *again)
    if not policy.on_checkpoint:
        for task in again:
            rig.running(task).chain.finish()
        rig.checkpoint(3, *again)
        rig.notice(3, True, *again)
    rig.turn_until(lambda: all(rig.operator(task, 1).is_drained for task in again))
    expected = [f"before-{number}-{n}" for number in range(old) for n in range(20)]
    expected += [f"after-{number}-{n}" for number in range(new) for n in range(20)]
    assert Counter(line for part in out.glob("part-*") for line in part.read_text().split()) == Counter(expected)
    assert not list(out.glob(".*"))


@pytest.mark.parametrize("failed", [False, True])
def test_files_for_a_savepoint_are_deleted_when_it_failed_and_the_task_starts_over(
    rig: CheckpointRig, tmp_path: Path, failed: bool
) -> None:
    out = tmp_path / "out"
    sink_chain = chain(SOURCE, plan.SinkSpec(FileSink.for_row_format(out)))
    task = rig.subtask(sink_chain)
    rig.deploy(task)
    feed(rig, task, ["a"])
    rig.checkpoint(1, task, savepoint=True)
    rig.cancel(task.attempt_id)
    assert len(list(out.glob(".*.savepoint"))) == 1
    again = replace(rig.subtask(sink_chain), attempt=1, failed_savepoints=(1,) if failed else ())
    rig.deploy(again)
    assert rig.state(again) == "RUNNING"
    assert len(list(out.glob(".*.savepoint"))) == (0 if failed else 1)


class Ticking(TwoPhaseCommitSink[int]):
    """Overrides a single hook."""

    checks: ClassVar[list[int]] = []
    check_interval = 3.0

    def begin_transaction(self) -> int:
        return 7

    def write(self, transaction: int, batch: Batch) -> None: ...

    def pre_commit(self, transaction: int) -> None: ...

    def commit(self, transaction: int) -> None: ...

    def abort(self, transaction: int) -> None: ...

    def check(self, transaction: int) -> None:
        self.checks.append(transaction)


def test_a_sink_is_called_as_time_passes_without_records(rig: CheckpointRig) -> None:
    Ticking.checks.clear()
    rig.start(SOURCE, plan.SinkSpec(Ticking()))
    for seconds, checks in ((0, 0), (2, 0), (1, 1), (2, 1), (2, 2)):
        rig.clock.advance(seconds)
        rig.turns()
        assert Ticking.checks == [7] * checks
