"""The collect protocol: results are numbered, kept until confirmed, final with a checkpoint, and have an end."""

from __future__ import annotations

from typing import Any

import cloudpickle
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from thoroughness import cases

from millstream.client.result_buffer import ResultBuffer
from millstream.core.errors import JobExecutionError
from millstream.core.jobs.ids import JobId
from millstream.core.jobs.plan import plan
from millstream.core.messages.results import CollectRequest, CollectResponse
from millstream.core.pickling import to_bytes
from millstream.core.records import types as t
from millstream.core.records.batches import Barrier, ColumnBatch, RowBatch
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.worker.operators.base import OperatorError
from millstream.taskmanager.worker.operators.sinks.collect import CollectOperator
from millstream.taskmanager.worker.state.heap import HeapOperatorStateBackend


def collector(
    kind: t.TypeInformation = t.PICKLED, checkpointed: bool = False, restored: list[Any] | None = None
) -> CollectOperator:
    """With the state of a snapshot (see `snapshot`), an operator that was restored from it."""
    options = {"execution.checkpointing.interval": "1 s"} if checkpointed else {}
    backend = HeapOperatorStateBackend()
    backend.get_list_state("chunks", t.PICKLED).update(stored(restored or []))
    operator = OperatorHarness(
        plan.CollectSpec(), kind, name="collect", options=options, operator_backend=backend
    ).operator
    assert isinstance(operator, CollectOperator)
    operator.initialize_state(None if restored is None else 1)
    return operator


def stored(state: list[Any]) -> list[Any]:
    return [(len(rows), to_bytes(rows)) if isinstance(rows, list) else rows for rows in state]


def snapshot(operator: CollectOperator, number: int) -> list[Any]:
    """The number of the first result, and the results by chunk."""
    operator.prepare_snapshot(Barrier(number, 0))
    first, *chunks = operator.operator_state.store.get_list_state("chunks", t.PICKLED).get()
    return [first, *(cloudpickle.loads(pickled) for _, pickled in chunks)]


def request(operator: CollectOperator, version: str = "", offset: int = 0) -> CollectResponse:
    return operator.on_mail(CollectRequest(JobId("job"), "collect", version, offset, request_id="r"))


def results(response: CollectResponse) -> list[Any]:
    return [row for raw in response.batches for row in cloudpickle.loads(raw)]


def test_results_start_with_the_first_and_carry_their_version() -> None:
    operator = collector()
    operator.process(RowBatch([]))
    first = request(operator)
    assert first.version
    assert (first.request_id, first.offset, list(first.batches), first.finished) == ("r", 0, [], False)
    operator.process(RowBatch(["a", "b"]))
    response = request(operator, first.version, 0)
    assert (response.version, response.offset, results(response)) == (first.version, 0, ["a", "b"])


def test_results_are_kept_until_the_next_are_requested() -> None:
    operator = collector()
    operator.process(RowBatch(["a", "b"]))
    operator.process(RowBatch(["c"]))
    version = request(operator).version
    assert results(request(operator, version, 0)) == ["a", "b", "c"]
    assert results(request(operator, version, 1)) == ["a", "b", "c"]  # a chunk is sent as a whole
    response = request(operator, version, 2)
    assert (response.offset, results(response)) == (2, ["c"])
    # too late for what was confirmed: the offset in the response is where it continues
    response = request(operator, version, 0)
    assert (response.offset, results(response)) == (2, ["c"])


def test_another_version_confirms_nothing() -> None:
    operator = collector()
    operator.process(RowBatch(["a", "b"]))
    for version in ("", "an earlier attempt"):
        response = request(operator, version, 2)
        assert (response.offset, results(response)) == (0, ["a", "b"])


def test_an_offset_beyond_the_end_confirms_everything() -> None:
    operator = collector()
    operator.process(RowBatch(["a"]))
    version = request(operator).version
    response = request(operator, version, 50)
    assert (response.offset, results(response)) == (1, [])
    operator.process(RowBatch(["b"]))
    assert (request(operator, version, 1).offset, results(request(operator, version, 1))) == (1, ["b"])


def test_the_end_is_reported_once_everything_is_confirmed() -> None:
    operator = collector()
    operator.process(RowBatch(["a"]))
    operator.finish()
    assert not operator.is_drained
    response = request(operator)
    assert not response.finished
    assert not operator.is_drained
    last = request(operator, response.version, 1)
    assert last.finished
    assert operator.is_drained


def test_responses_and_waiting_results_are_bounded_in_bytes() -> None:
    operator = collector()
    quarter = b"x" * (CollectOperator.CAPACITY // 4)
    operator.process(RowBatch([quarter] * 3))
    assert operator.has_room
    operator.process(RowBatch([bytes([n]) + quarter for n in range(9)]))  # more than a message should have
    assert not operator.has_room
    received: list[bytes] = []
    version = ""
    while len(received) < 12:
        response = request(operator, version, len(received))
        version = response.version
        assert sum(map(len, response.batches)) <= CollectOperator.CAPACITY
        received += results(response)[len(received) - response.offset :]
    assert received == [quarter] * 3 + [bytes([n]) + quarter for n in range(9)]
    request(operator, version, 12)
    assert operator.has_room
    assert operator.is_drained


def test_a_result_larger_than_a_response_is_sent_alone_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = collector()
    large = b"x" * (2 * CollectOperator.CAPACITY)
    operator.process(RowBatch(["a", large, "b"]))
    version = request(operator).version
    assert [results(request(operator, version, n)) for n in range(3)] == [["a"], [large], ["b"]]
    monkeypatch.setattr(CollectOperator, "LARGEST", len(large))
    with pytest.raises(OperatorError, match=r"a result of 41943\d\d bytes cannot be collected: the limit is 4194304"):
        operator.process(RowBatch(["c", large]))


def test_columns_are_collected_as_records() -> None:
    operator = collector(t.TupleType((t.LONG, t.STRING)))
    operator.process(ColumnBatch(pa.RecordBatch.from_pydict({"f0": [1, 2], "f1": ["a", "b"]})))
    assert results(request(operator)) == [(1, "a"), (2, "b")]


def test_without_checkpoints_everything_is_final() -> None:
    operator = collector()
    operator.process(RowBatch(["a", "b"]))
    response = request(operator)
    assert (response.committed, response.starts_over) == (2, True)


def test_results_are_final_when_a_later_checkpoint_completes() -> None:
    operator = collector(checkpointed=True)
    operator.process(RowBatch(["a", "b"]))
    version = request(operator).version
    assert snapshot(operator, 1) == [0, ["a", "b"]]
    operator.process(RowBatch(["c"]))
    assert snapshot(operator, 2) == [0, ["a", "b"], ["c"]]
    assert request(operator, version, 2).committed == 0
    assert snapshot(operator, 3) == [2, ["c"]]
    operator.notify_checkpoint_complete(1)
    assert request(operator, version, 2).committed == 2
    operator.notify_checkpoint_complete(2)
    operator.notify_checkpoint_complete(1)
    assert request(operator, version, 2).committed == 3


def test_a_restored_attempt_continues_the_numbers_under_a_new_version() -> None:
    operator = collector(checkpointed=True, restored=[5, ["f"], ["g"]])
    response = request(operator, "an earlier attempt", 6)
    assert (response.offset, results(response), response.committed, response.starts_over) == (5, ["f", "g"], 7, False)
    nothing_new = collector(checkpointed=True, restored=[5])
    assert (request(nothing_new).offset, request(nothing_new).committed) == (5, 5)


def test_the_end_is_reported_when_a_checkpoint_contains_it() -> None:
    operator = collector(checkpointed=True)
    operator.process(RowBatch(["a"]))
    operator.finish()
    version = request(operator).version
    assert not request(operator, version, 1).finished
    snapshot(operator, 1)
    operator.notify_checkpoint_complete(1)
    assert request(operator, version, 1).finished


def exchange(buffer: ResultBuffer, operator: CollectOperator) -> CollectResponse:
    return operator.on_mail(buffer.request(JobId("job"), "collect"))


def test_a_job_that_starts_over_after_results_were_delivered_is_an_error() -> None:
    buffer, operator = ResultBuffer(), collector()
    operator.process(RowBatch(["a", "b"]))
    assert buffer.take(exchange(buffer, operator)) == ["a", "b"]
    again = collector()
    again.process(RowBatch(["a", "b", "c"]))
    with pytest.raises(JobExecutionError, match=r"started over after 2 of its results.*checkpointing\.interval"):
        buffer.take(exchange(buffer, again))


def test_undelivered_results_are_dropped_when_the_job_starts_over() -> None:
    buffer, operator = ResultBuffer(), collector(checkpointed=True)
    operator.process(RowBatch(["a", "b"]))
    assert buffer.take(exchange(buffer, operator)) == []
    again = collector(checkpointed=True)
    again.process(RowBatch(["x"]))
    assert buffer.take(exchange(buffer, again)) == []
    assert buffer.rest() == ["x"]


class CollectModel(RuleBasedStateMachine):
    """A job that fails at any time, and whose responses get lost. Results are numbers in ascending order."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer = ResultBuffer()
        self.operator = collector(checkpointed=True)
        self.handed: list[int] = []
        self.position = 0
        self.number = 0
        self.snapshots: dict[int, tuple[int, list[Any] | None]] = {0: (0, None)}

    @rule(count=st.integers(1, 4))
    def produce(self, count: int) -> None:
        self.operator.process(RowBatch(list(range(self.position, self.position + count))))
        self.position += count

    @rule(lost=st.booleans())
    def pull(self, lost: bool) -> None:
        response = exchange(self.buffer, self.operator)
        if not lost and self.buffer.is_news(response):
            self.handed += self.buffer.take(response)

    @rule()
    def capture(self) -> None:
        self.number += 1
        self.snapshots[self.number] = (self.position, snapshot(self.operator, self.number))

    @rule(notified=st.booleans())
    def complete(self, notified: bool) -> None:
        latest = max(self.snapshots)
        self.snapshots = {latest: self.snapshots[latest]}
        if notified:
            self.operator.notify_checkpoint_complete(latest)

    @rule()
    def crash(self) -> None:
        restored = min(self.snapshots)
        self.snapshots = {restored: self.snapshots[restored]}
        self.position, state = self.snapshots[restored]
        self.operator = collector(checkpointed=True, restored=state)

    @invariant()
    def hands_out_what_is_final_once_and_in_order(self) -> None:
        assert self.handed == list(range(len(self.handed)))
        assert len(self.handed) <= self.snapshots[min(self.snapshots)][0]

    def teardown(self) -> None:
        self.operator.finish()
        self.capture()
        self.complete(notified=True)
        for _ in range(4):
            self.pull(lost=False)
        assert self.handed == list(range(self.position))
        assert exchange(self.buffer, self.operator).finished
        assert self.operator.is_drained


TestCollectModel = CollectModel.TestCase
TestCollectModel.settings = settings(max_examples=cases(100), stateful_step_count=30)
