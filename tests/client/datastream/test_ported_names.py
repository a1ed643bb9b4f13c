"""PyFlink's names for settings of operators and of the environment, and those that are not supported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from millstream.core.errors import InvalidProgramError
from millstream.datastream import DataStream, StreamExecutionEnvironment, connectors
from millstream.datastream.connectors import base, file_system
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.graph.transformations import OperatorTransformation
from millstream.datastream.stream_execution_environment.stream_execution_environment import LOCAL_DEFAULTS

HASH = "0123456789abcdef0123456789ABCDEF"


@pytest.fixture(autouse=True)
def no_local_default() -> Iterator[None]:
    yield
    LOCAL_DEFAULTS.parallelism = None


def operator_of(stream: DataStream) -> OperatorTransformation:
    assert isinstance(stream.transformation, OperatorTransformation)
    return stream.transformation


def test_a_uid_hash_is_the_operators_id(env: StreamExecutionEnvironment) -> None:
    mapped = env.from_collection([1]).map(str).uid("mapped").set_uid_hash(HASH)
    sink = mapped.print().set_uid_hash("f" * 32)
    graph = env.generate_job().stream_graph
    assert graph.node_of(operator_of(mapped)).id == HASH.lower()
    assert sink.get_name() == "Print to Std. Out"
    assert graph.nodes[-1].id == "f" * 32


def test_a_uid_hash_is_one_operators_own(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).set_uid_hash(HASH).map(str).set_uid_hash(HASH).print()
    with pytest.raises(InvalidProgramError, match=f"the id {HASH.lower()} is used twice, by 'Source: Collection"):
        env.generate_job()


@pytest.mark.parametrize("wrong", ["abc", "g" * 32, "", None, 7])
def test_a_uid_hash_has_the_shape_of_an_id(env: StreamExecutionEnvironment, wrong: Any) -> None:
    with pytest.raises(InvalidProgramError, match="expected an id of 32 hexadecimal digits"):
        env.from_collection([1]).set_uid_hash(wrong)


def test_the_classes_of_streams_are_where_pyflink_has_them() -> None:
    import millstream.datastream as top
    from millstream.datastream import data_stream

    for name in data_stream.__all__:
        assert getattr(data_stream, name) is getattr(top, name)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = data_stream.Nothing  # type: ignore[attr-defined]


def test_sources_and_sinks_of_files_and_numbers_are_also_where_pyflink_has_them() -> None:
    names = {name for name in connectors.__all__ if not hasattr(base, name)}
    assert {"FileSink", "FileSource", "StreamingFileSink", "StreamFormat", "OutputFileConfig", "RollingPolicy"} < names
    assert connectors.NumberSequenceSource is NumberSequenceSource
    for name in names - {"NumberSequenceSource"}:
        assert getattr(connectors, name) is getattr(file_system, name)
    with pytest.raises(ImportError, match="cannot import name 'FlinkKafkaConsumer'"):
        exec("from millstream.datastream.connectors import FlinkKafkaConsumer")


def test_the_default_parallelism_of_local_programs(env: StreamExecutionEnvironment) -> None:
    before = env.get_parallelism()
    assert StreamExecutionEnvironment.get_default_local_parallelism() == before
    StreamExecutionEnvironment.set_default_local_parallelism(8)
    assert env.get_default_local_parallelism() == 8
    assert (env.get_parallelism(), StreamExecutionEnvironment.get_execution_environment().get_parallelism()) == (
        before,
        8,
    )
    with pytest.raises(InvalidProgramError, match="set_default_local_parallelism: a parallelism is a whole number"):
        StreamExecutionEnvironment.set_default_local_parallelism(0)


def test_what_needs_a_jvm_is_refused_with_what_to_do(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(
        InvalidProgramError, match=r"add_jars: file:///kafka.jar cannot be used, because there is no JVM"
    ):
        env.add_jars("file:///kafka.jar")
    with pytest.raises(InvalidProgramError, match=r"add_classpaths: file:///x cannot be used, because there is no JVM"):
        env.add_classpaths("file:///x")
    env.close()


def test_settings_of_the_environment_can_be_read_from_its_streams(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(3)
    assert env.from_collection([1]).get_execution_config().get_parallelism() == 3
    assert env.is_chaining_of_operators_with_different_max_parallelism_enabled()
