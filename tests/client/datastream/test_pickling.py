from __future__ import annotations

import functools
import pickle
import threading
import traceback
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from millstream.common import InvalidProgramError
from millstream.datastream import MapFunction, StreamExecutionEnvironment
from millstream.datastream.graph.pickling import pickled


class Holder(MapFunction):
    def __init__(self) -> None:
        self.settings = {"lock": threading.Lock()}

    def map(self, value: Any) -> Any:
        return value


class Refuses:
    def __reduce__(self) -> Any:
        raise ValueError("never\nof this")


def failure(part: Any) -> str:
    with pytest.raises(InvalidProgramError) as caught:
        pickled(part, "Enrich", part)
    assert (caught.value.__cause__ is not None) == isinstance(part, Refuses), "what a user's code raised is kept"
    return str(caught.value)


def test_functions_are_carried_by_value() -> None:
    offset = 3
    assert pickle.loads(pickled(lambda x: x + offset, "Add", None))(1) == 4


def test_dataclasses_that_msgspec_has_seen_are_carried_too() -> None:
    @dataclass
    class Local:
        x: int

    msgspec.msgpack.decode(msgspec.msgpack.encode(Local(1)), type=Local)
    assert "__msgspec_cache__" in Local.__dict__
    assert pickle.loads(pickled(lambda: Local(2), "Make", None))().x == 2
    assert "__msgspec_cache__" in Local.__dict__


def test_a_captured_variable_is_named() -> None:
    lock = threading.Lock()
    message = failure(lambda x: (lock, x))
    assert message.startswith("operator 'Enrich': the variable 'lock', an object of type '_thread.lock', cannot be")
    assert "open()" in message


def test_an_attribute_is_found_below_the_function() -> None:
    assert "the item 'lock' of the attribute 'settings', an object of type '_thread.lock'" in failure(Holder())
    assert "of its object" in failure(Holder().map)


def test_arguments_of_partials_and_elements_are_found() -> None:
    assert "argument 0" in failure(functools.partial(lambda lock, x: x, threading.Lock()))
    assert "argument 'lock'" in failure(functools.partial(lambda x, lock: x, lock=threading.Lock()))
    assert "the element 1" in failure([1, threading.Lock()])
    assert "default 0" in failure(lambda x, lock=threading.Lock(): x)  # noqa: B008


def test_the_reason_is_one_line() -> None:
    assert "cannot be pickled: never of this. Create such objects" in failure(Refuses())


def test_the_operator_at_fault_in_a_chain_is_named(env: StreamExecutionEnvironment) -> None:
    lock = threading.Lock()
    env.from_collection([1]).map(lambda x: x).name("fine").map(lambda x: (lock, x)).name("broken").map(str)
    with pytest.raises(InvalidProgramError, match=r"operator 'broken': the variable 'lock'") as raised:
        env.generate_job()
    assert "".join(traceback.format_exception(raised.value)).count("Traceback") == 1, "the message is complete"


def test_the_key_selector_of_an_edge_is_checked_too(env: StreamExecutionEnvironment) -> None:
    lock = threading.Lock()
    env.from_collection([1]).key_by(lambda x: (lock, x)[1]).reduce(lambda a, b: a).name("total")
    with pytest.raises(InvalidProgramError, match=r"operator 'total': .*the variable 'lock'"):
        env.generate_job()
    other = StreamExecutionEnvironment.get_execution_environment()
    other.from_collection([1]).partition_custom(lambda k, n: (lock, 0)[1], lambda x: x).map(str).name("after")
    with pytest.raises(InvalidProgramError, match=r"operator 'after': .*the variable 'lock'"):
        other.generate_job()


def test_an_unpicklable_source_names_its_operator(env: StreamExecutionEnvironment) -> None:
    env.from_collection([threading.Lock()])
    with pytest.raises(InvalidProgramError, match="operator 'Source: Collection Source'"):
        env.generate_job()


def test_streams_inside_functions_are_refused_with_the_reason(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([1])
    stream.map(lambda x: stream)
    with pytest.raises(InvalidProgramError, match=r"the variable 'stream', an .*: a DataStream exists only"):
        env.generate_job()
    other = StreamExecutionEnvironment.get_execution_environment()
    other.from_collection([1]).map(lambda x: other)
    with pytest.raises(InvalidProgramError, match="a StreamExecutionEnvironment exists only while"):
        other.generate_job()
