"""A made-up operator and a made-up signal: a specification and a class, and every hook is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from worker_rig import WorkerRig, local_pair, reading, writing

from millstream.core.jobs.plan import plan
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.records.batches import Batch, RowBatch, StreamSignal
from millstream.datastream.graph.held_state import held_state
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.worker.operators.base import Operator, RestoredElements
from millstream.taskmanager.worker.operators.registry import build_operator, builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup


@dataclass(frozen=True, slots=True)
class Mark(StreamSignal):
    number: int


@dataclass(frozen=True, slots=True)
class DelaySpec(plan.OperatorSpec):
    """Holds records back until so many seconds have passed, or a mail for them arrives."""

    kind = "delay"
    seconds: float
    most: int

    def held_state(self) -> frozenset[StateKind]:
        return frozenset({StateKind.SPLITS})  # any kind that belongs to the operator itself


@builds(DelaySpec)
class DelayOperator(Operator):
    def __init__(self, setup: OperatorSetup, spec: DelaySpec) -> None:
        super().__init__(setup)
        self._spec = spec
        self._setup = setup
        self._held: list[Any] = []
        self._since: float | None = None

    def restore(self, restored: RestoredElements) -> None:
        self._held = restored.own()

    def process(self, batch: Batch) -> None:
        self._held += self.rows_of(batch)
        self._setup.post(len(self._held))

    def on_signal(self, signal: StreamSignal, input_index: int = 0) -> None:
        self._release()
        super().on_signal(signal, input_index)

    def on_time(self, now: float) -> float | None:
        self._since = now if self._since is None else self._since
        if now < self._since + self._spec.seconds:
            return self._since + self._spec.seconds
        self._release()
        return None

    def on_mail(self, mail: Any) -> Any:
        if mail == "release":
            self._release()
        return ("got", mail)

    @property
    def has_room(self) -> bool:
        return len(self._held) < self._spec.most

    @property
    def is_drained(self) -> bool:
        return not self._held

    def finish(self) -> None:
        self._release()

    def elements(self, checkpoint_id: int) -> Mapping[StateKind, Sequence[Any]]:
        return {StateKind.SPLITS: self._held}

    def _release(self) -> None:
        held, self._held = self._held, []
        if held:
            self.output.emit(RowBatch(held))


def test_a_made_up_operator_has_every_hook() -> None:
    spec = DelaySpec(5.0, 3)
    assert held_state(spec) == {StateKind.SPLITS}
    harness = OperatorHarness(spec, tags=["beside"]).open()
    assert harness.process(RowBatch([1, 2])) == []
    assert harness.deliver() == [("got", 2)]
    assert harness.advance() == 5.0
    assert harness.advance(4.0) == 1.0
    assert harness.advance(1.0) is None
    assert harness.out.rows == [1, 2]
    harness.process(RowBatch([3]))
    harness.signal(Mark(1))
    assert [getattr(e, "rows", e) for e in harness.out.elements] == [[1, 2], [3], Mark(1)]
    assert harness.side["beside"].elements == [Mark(1)]
    assert harness.operator.has_room
    harness.process(RowBatch([4, 5, 6]))
    assert not harness.operator.has_room
    snapshot = harness.snapshot(1)
    harness.finish()
    assert harness.out.rows[-3:] == [4, 5, 6]

    again = OperatorHarness(spec, restored=snapshot).open()
    again.finish()
    assert again.out.rows == [4, 5, 6]
    assert again.close() == []


def test_a_specification_without_an_operator_is_reported() -> None:
    class Unknown(plan.OperatorSpec):
        kind = "unknown"

    harness = OperatorHarness(plan.MapSpec(str))
    setup = OperatorSetup(None, "id", "mine", None, (), harness.out)  # type: ignore[arg-type]  # neither is used
    with pytest.raises(LookupError, match=r"'mine' is a .*Unknown, for which .* has no operator"):
        build_operator(setup, Unknown())


def test_a_task_uses_the_hooks_only_for_holding_back_ending_mails_and_time(rig: WorkerRig) -> None:
    output, _ = local_pair(rig, 1)
    source = reading(range(10), waits=True, batch=1)
    task = rig.start(source, DelaySpec(60.0, 3), outputs=[output])
    rig.turn_until(lambda: not rig.operator(task, 1).has_room, turns=20)
    rig.turns(5)
    assert len(rig.operator(task, 1).elements(0)[StateKind.SPLITS]) == 3  # no room: no step is taken
    rig.clock.advance(60)
    rig.turn_until(lambda: rig.running(task).counts.metrics().records_out == 3, turns=20)


@pytest.mark.parametrize("operator_id", ["op-0", "op-1", "unknown"])
def test_a_mail_of_an_unknown_kind_is_answered_with_none(rig: WorkerRig, operator_id: str) -> None:
    task = rig.start(reading(waits=True), plan.MapSpec(abs))
    assert "not running" in rig.collect(task.attempt_id, operator_id).error
    rig.turns()
    assert rig.state(task) == "RUNNING"


def test_a_made_up_signal_passes_the_operators_of_a_task_in_order(rig: WorkerRig) -> None:
    output, _ = local_pair(rig, 2)
    _, gate = local_pair(rig, 1)
    rig.start(plan.MapSpec(lambda n: -n), DelaySpec(60.0, 9), inputs=[gate], outputs=[output])
    for element in (RowBatch([1]), RowBatch([2]), Mark(1), RowBatch([3]), Mark(2)):
        rig.channel(1).put(element)
    rig.turn_until(lambda: rig.channel(2).queue and rig.channel(2).queue[-1] == Mark(2), turns=20)
    assert [getattr(e, "rows", e) for e in rig.channel(2).queue] == [[-1, -2], Mark(1), [-3], Mark(2)]


def test_a_sink_at_the_end_of_a_chain_drops_signals(rig: WorkerRig) -> None:
    _, gate = local_pair(rig, 1)
    task = rig.start(plan.MapSpec(abs), writing("swallows"), inputs=[gate])
    rig.channel(1).put(Mark(1))
    rig.turn_until(lambda: not rig.channel(1).queue, turns=5)
    assert rig.state(task) == "RUNNING"
