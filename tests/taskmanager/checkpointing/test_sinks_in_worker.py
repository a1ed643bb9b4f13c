"""Two-phase-commit sinks and collected results in a worker driven by hand: state is written, read and dealt out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from checkpoint_rig import CheckpointRig, PositionedSource, chain_of
from msgspec.structs import replace

from millstream.core.jobs import plan
from millstream.core.messages.checkpoints import CheckpointAck
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.messages.results import CollectResponse
from millstream.core.messages.sources import Splits
from millstream.core.pickling import to_bytes
from millstream.core.records.batches import Batch
from millstream.core.snapshot import OperatorSnapshot, StateKind
from millstream.core.snapshot.metadata.operator_json import operators_from_json, operators_to_json
from millstream.datastream.connectors.file_system import FileSink, RollingPolicy
from millstream.datastream.connectors.two_phase_commit import TwoPhaseCommitSink

SOURCE = plan.SourceSpec(PositionedSource(batch=5))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[CheckpointRig]:
    made = CheckpointRig(tmp_path / "checkpoints", **{"execution.checkpointing.interval": "1 h"})
    yield made
    made.close()


def feed(rig: CheckpointRig, task: TaskDeployment, rows: list[str]) -> None:
    """Gives the task rows, and has it handle them."""
    rig.tell(task, Splits(to_bytes([(rows, 0)])))
    rig.turn_until(lambda: not rig.unread(task))


def merged(acks: Iterable[CheckpointAck]) -> bytes:
    """All subtasks' states of the sink, as the job manager hands them over under another parallelism."""
    found: OperatorSnapshot | None = None
    for ack in acks:
        (sink,) = [o for o in operators_from_json(ack.operators, "ack") if o.operator_id == "op-1"]
        (state,) = sink.states
        assert (state.name, state.kind) == ("transactions", StateKind.SINK_TRANSACTIONS)
        files = (found.states[0].files if found else ()) + state.files
        found = replace(sink, states=(replace(state, files=files),))
    assert found is not None
    return operators_to_json([found])


@pytest.mark.parametrize("savepoint", [False, True])
@pytest.mark.parametrize("policy", [RollingPolicy.on_checkpoint_rolling_policy(), RollingPolicy(part_size=1 << 20)])
@pytest.mark.parametrize(("old", "new"), [(1, 1), (2, 2), (2, 3), (3, 1)])
def test_a_file_sink_goes_on_under_any_parallelism(
    rig: CheckpointRig, tmp_path: Path, old: int, new: int, policy: RollingPolicy, savepoint: bool
) -> None:
    out = tmp_path / "out"
    chain = chain_of(SOURCE, plan.SinkSpec(FileSink.for_row_format(out).with_rolling_policy(policy)))
    tasks = [rig.subtask(chain, subtask, old) for subtask in range(old)]
    rig.deploy(*tasks)
    for number, task in enumerate(tasks):
        feed(rig, task, [f"before-{number}-{n}" for n in range(20)])
    rig.trigger(1, *tasks, savepoint=savepoint)
    acks = rig.acknowledged(1, *tasks)
    for task in tasks:
        feed(rig, task, ["lost"])
    rig.cancel(*(task.attempt_id for task in tasks))
    assert not list(out.glob("part-*"))
    again = [replace(rig.subtask(chain, subtask, new, merged(acks)), attempt=1) for subtask in range(new)]
    rig.deploy(*again)
    assert {rig.states(task)[-1] for task in again} == {"RUNNING"}
    for number, task in enumerate(again):
        feed(rig, task, [f"after-{number}-{n}" for n in range(20)])
    rig.trigger(2, *again)
    rig.acknowledged(2, *again)
    rig.notice(2, True, *again)
    if not policy.on_checkpoint:
        for task in again:
            rig.running(task).chain.finish()
        rig.trigger(3, *again)
        rig.acknowledged(3, *again)
        rig.notice(3, True, *again)
    expected = [f"before-{number}-{n}" for number in range(old) for n in range(20)]
    expected += [f"after-{number}-{n}" for number in range(new) for n in range(20)]
    assert Counter(line for part in out.glob("part-*") for line in part.read_text().split()) == Counter(expected)
    assert not list(out.glob(".*"))


@pytest.mark.parametrize("failed", [False, True])
def test_files_for_a_savepoint_go_when_it_failed_and_the_task_begins_again(
    rig: CheckpointRig, tmp_path: Path, failed: bool
) -> None:
    out = tmp_path / "out"
    chain = chain_of(SOURCE, plan.SinkSpec(FileSink.for_row_format(out)))
    task = rig.subtask(chain)
    rig.deploy(task)
    feed(rig, task, ["a"])
    rig.trigger(1, task, savepoint=True)
    rig.acknowledged(1, task)
    rig.cancel(task.attempt_id)
    assert len(list(out.glob(".*.savepoint"))) == 1
    again = replace(rig.subtask(chain), attempt=1, failed_savepoints=(1,) if failed else ())
    rig.deploy(again)
    assert rig.states(again)[-1] == "RUNNING"
    assert len(list(out.glob(".*.savepoint"))) == (0 if failed else 1)


def test_collected_results_go_on_with_their_numbers(rig: CheckpointRig) -> None:
    chain = chain_of(SOURCE, plan.CollectSpec())

    def ask(task: TaskDeployment, version: str = "", offset: int = 0) -> CollectResponse:
        return rig.collect(task.attempt_id, "op-1", version, offset)

    task = rig.subtask(chain)
    rig.deploy(task)
    feed(rig, task, ["a", "b"])
    feed(rig, task, ["c"])
    ask(task, ask(task).version, 2)
    rig.trigger(1, task)
    (ack,) = rig.acknowledged(1, task)
    assert ask(task).committed == 0
    rig.notice(1, True, task)
    assert (ask(task).committed, ask(task).starts_over) == (3, True)
    rig.cancel(task.attempt_id)
    again = rig.subtask(chain, restore=ack.operators)
    rig.deploy(again)
    answer = ask(again)
    assert (answer.offset, answer.committed, answer.starts_over) == (2, 3, False)


class Ticking(TwoPhaseCommitSink[int]):
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


def test_a_sink_looks_at_the_time_while_no_records_come(rig: CheckpointRig) -> None:
    Ticking.checks.clear()
    task = rig.subtask(chain_of(SOURCE, plan.SinkSpec(Ticking())))
    rig.deploy(task)
    for seconds, checks in ((0, 0), (2, 0), (1, 1), (2, 1), (2, 2)):
        rig.clock.advance(seconds)
        rig.worker.turn()
        assert Ticking.checks == [7] * checks
