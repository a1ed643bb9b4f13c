"""The graph of a program with a sink that has one committer."""

from __future__ import annotations

from typing import Any

import pytest
from program_graphs import chain_of, graph_of, spec_of

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan import plan
from millstream.core.jobs.state_kinds import StateKind
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.global_commit import GlobalCommitSink
from millstream.taskmanager.worker.network.overtaking import is_overtakable


class Lake(GlobalCommitSink[str]):
    def create_writer(self, context: Any) -> Any: ...

    def create_committer(self, context: Any) -> Any: ...


def test_writers_of_all_subtasks_have_one_committer_behind_them() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    sink = env.from_sequence(1, 10).set_parallelism(3).sink_to(Lake())
    assert sink.get_name() == "Lake: Writer"
    sink.name("lake").uid("lake").set_description("the lake").slot_sharing_group("lakes").set_parallelism(2)
    graph = graph_of(env)
    _, writing, committing = graph.vertices
    assert (writing.name, committing.name) == ("Sink: lake: Writer", "Sink: lake: Committer")
    assert (writing.parallelism, committing.parallelism, committing.non_parallel) == (2, 1, True)
    (writer,), (committer,) = chain_of(writing).operators, chain_of(committing).operators
    assert (writer.uid, committer.uid) == ("lake", "lake-committer")
    assert writer.spec.held_state() == frozenset()
    assert committer.spec.held_state() == {StateKind.SINK_TRANSACTIONS}
    partitioner = spec_of(graph, 1).partitioner
    assert isinstance(partitioner, plan.RescalePartitioner)
    assert not is_overtakable(partitioner), "a checkpoint has all committables from before its barriers"


def test_an_id_of_its_state_is_the_committers() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_sequence(1, 10).sink_to(Lake()).set_uid_hash("0123456789abcdef0123456789abcdef")
    committer = chain_of(graph_of(env).vertices[-1]).operators[-1]
    assert committer.operator_id == "0123456789abcdef0123456789abcdef"


def test_settings_are_checked_as_those_of_any_sink() -> None:
    sink = StreamExecutionEnvironment.get_execution_environment().from_sequence(1, 10).sink_to(Lake())
    with pytest.raises(InvalidProgramError, match="a parallelism is a whole number"):
        sink.set_parallelism(0)
    with pytest.raises(InvalidProgramError, match="expected a text that is not empty"):
        sink.uid("")
