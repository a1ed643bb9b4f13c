"""The collect protocol: results are numbered, kept until confirmed, and end with the word that they ended."""

from __future__ import annotations

import threading
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core import types as t
from millstream.core.batches import ColumnBatch, RowBatch
from millstream.proto import dispatcher_pb2 as pb
from millstream.proto import taskmanager_pb2
from millstream.taskmanager.operators.base import OperatorError
from millstream.taskmanager.operators.sinks import CollectOperator
from millstream.taskmanager.runtime_context import TaskRuntimeContext


def collector(kind: t.TypeInformation = t.PICKLED) -> CollectOperator:
    context = TaskRuntimeContext(taskmanager_pb2.TaskDeployment(), "collect", {}, {}, {})
    return CollectOperator("collect", context, kind, lambda batch: None)


def ask(operator: CollectOperator, version: str = "", offset: int = 0) -> pb.CollectResponse:
    return operator.answer(pb.CollectRequest(version=version, offset=offset, request_id="r"))


def results(answer: pb.CollectResponse) -> list[Any]:
    return [row for raw in answer.batches for row in cloudpickle.loads(raw)]


def test_results_come_from_the_first_with_their_version() -> None:
    operator = collector()
    first = ask(operator)
    assert first.version
    assert (first.request_id, first.offset, list(first.batches), first.finished) == ("r", 0, [], False)
    operator.process(RowBatch(["a", "b"]))
    answer = ask(operator, first.version, 0)
    assert (answer.version, answer.offset, results(answer)) == (first.version, 0, ["a", "b"])


def test_results_are_kept_until_the_next_are_asked_for() -> None:
    operator = collector()
    operator.process(RowBatch(["a", "b", "c"]))
    version = ask(operator).version
    assert results(ask(operator, version, 0)) == ["a", "b", "c"]
    answer = ask(operator, version, 2)
    assert (answer.offset, results(answer)) == (2, ["c"])
    answer = ask(operator, version, 0)  # too late for what was confirmed: the offset says where it goes on
    assert (answer.offset, results(answer)) == (2, ["c"])


def test_another_version_confirms_nothing() -> None:
    operator = collector()
    operator.process(RowBatch(["a", "b"]))
    for version in ("", "an earlier attempt"):
        answer = ask(operator, version, 2)
        assert (answer.offset, results(answer)) == (0, ["a", "b"])


def test_an_offset_beyond_the_end_confirms_what_there_is() -> None:
    operator = collector()
    operator.process(RowBatch(["a"]))
    version = ask(operator).version
    answer = ask(operator, version, 50)
    assert (answer.offset, results(answer)) == (1, [])
    operator.process(RowBatch(["b"]))
    assert (ask(operator, version, 1).offset, results(ask(operator, version, 1))) == (1, ["b"])


def test_the_end_is_told_once_everything_is_confirmed() -> None:
    operator = collector()
    operator.process(RowBatch(["a"]))
    operator.finish()
    assert not operator.is_drained
    answer = ask(operator)
    assert not answer.finished
    assert not operator.is_drained
    last = ask(operator, answer.version, 1)
    assert last.finished
    assert operator.is_drained


def test_answers_are_bounded_and_so_is_what_waits() -> None:
    operator = collector()
    operator.process(RowBatch(list(range(CollectOperator.CAPACITY))))
    assert not operator.has_room
    answer = ask(operator)
    assert results(answer) == list(range(CollectOperator.ANSWER))
    ask(operator, answer.version, 1)
    assert operator.has_room


def test_columns_are_collected_as_records() -> None:
    operator = collector(t.TupleType((t.LONG, t.STRING)))
    operator.process(ColumnBatch(pa.RecordBatch.from_pydict({"f0": [1, 2], "f1": ["a", "b"]})))
    assert results(ask(operator)) == [(1, "a"), (2, "b")]


def test_a_result_that_cannot_be_pickled_is_blamed() -> None:
    operator = collector()
    lock = threading.Lock()
    operator.process(RowBatch([1, lock, 3]))
    with pytest.raises(OperatorError, match="pickle") as caught:
        ask(operator)
    assert caught.value.operator_name == "collect"
    assert caught.value.record is lock


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), max_size=30))
def test_a_client_that_repeats_itself_gets_everything_once(steps: list[tuple[int, bool, bool]]) -> None:
    """Answers may be lost on their way; the client asks again from where it is."""
    operator = collector()
    version, received, produced = "", [], 0

    def pull(lost: bool) -> bool:
        nonlocal version
        answer = ask(operator, version, len(received))
        if not lost:
            version = answer.version
            received.extend(results(answer)[len(received) - answer.offset :])
        return answer.finished and not lost

    for count, asks, lost in steps:
        operator.process(RowBatch(list(range(produced, produced + count))))
        produced += count
        if asks:
            assert not pull(lost)
    operator.finish()
    pulls = 0
    while not pull(False):
        pulls += 1
        assert pulls < 5
    assert received == list(range(produced))
    assert operator.is_drained
