"""Functions of windows, and where functions are found. Hints are evaluated here, as in most programs."""

import pickle
from collections.abc import Iterable
from typing import Any

import cloudpickle
import pytest

from millstream.datastream import functions
from millstream.datastream.functions import (
    AllWindowFunction,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from millstream.datastream.state import KeyedStateStore
from millstream.datastream.window import TimeWindow


class Sums(ProcessWindowFunction[int, int, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[int]
    ) -> Iterable[int]:
        yield sum(elements) + context.window().start


class AllSums(ProcessAllWindowFunction[int, int, TimeWindow]):
    def process(self, context: ProcessAllWindowFunction.Context[TimeWindow], elements: Iterable[int]) -> Iterable[int]:
        yield sum(elements) + context.current_watermark()


class Here(ProcessWindowFunction.Context):
    def window(self) -> TimeWindow:
        return TimeWindow(100, 200)

    def current_processing_time(self) -> int:
        return 0

    def current_watermark(self) -> int:
        return 200

    def window_state(self) -> KeyedStateStore:
        return KeyedStateStore()

    def global_state(self) -> KeyedStateStore:
        return KeyedStateStore()


def test_process_functions_get_the_windows_context() -> None:
    assert list(Sums().process("a", Here(), [1, 2]) or ()) == [103]
    assert list(AllSums().process(Here(), [1, 2]) or ()) == [203]


def test_only_state_of_its_own_makes_a_function_clear_anything() -> None:
    assert Sums().clear(Here()) is None  # type: ignore[func-returns-value]  # nothing happens
    assert AllSums().clear(Here()) is None  # type: ignore[func-returns-value]  # nothing happens


def test_window_functions_get_the_window_itself() -> None:
    class Starts(WindowFunction[int, tuple[str, int], str, TimeWindow]):
        def apply(self, key: str, window: TimeWindow, inputs: Iterable[int]) -> Iterable[tuple[str, int]]:
            return [(key, window.start)]

    class AllStarts(AllWindowFunction[int, int, TimeWindow]):
        def apply(self, window: TimeWindow, inputs: Iterable[int]) -> Iterable[int]:
            return [window.start]

    assert Starts().apply("a", TimeWindow(1, 2), []) == [("a", 1)]
    assert pickle.loads(cloudpickle.dumps(AllStarts())).apply(TimeWindow(1, 2), []) == [1]


@pytest.mark.parametrize("kind", [WindowFunction, AllWindowFunction, ProcessWindowFunction, ProcessAllWindowFunction])
def test_a_window_function_needs_an_output_type(kind: Any) -> None:
    with pytest.raises(TypeError, match="abstract"):
        kind()


@pytest.mark.parametrize("name", functions.__all__)
def test_what_was_pickled_by_name_is_found_at_the_path_of_all_functions(name: str) -> None:
    assert pickle.loads(f"cmillstream.datastream.functions\n{name}\n.".encode()) is getattr(functions, name)


def test_a_tag_that_was_pickled_when_all_functions_were_in_one_file_is_read() -> None:
    tag = OutputTag("late")
    old = pickle.dumps(tag, 0).replace(b"datastream.output_tag", b"datastream.functions")
    assert b"output_tag" not in old
    assert pickle.loads(old) == tag
