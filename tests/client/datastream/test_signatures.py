from __future__ import annotations

import functools
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NewType, Optional

import pandas as pd
import pyarrow as pa
import pytest

from millstream.common import InvalidProgramError, Types
from millstream.core.records.types import DOUBLE, LONG, PICKLED, STRING, DataclassType, ListType, TupleType
from millstream.datastream import FlatMapFunction, MapFunction, OutputTag
from millstream.datastream.adapters.signatures import (
    batch_format_of,
    checked_callable,
    declared_type,
    element_type,
    refuse_generator,
    result_type,
)

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]

UserId = NewType("UserId", int)


@dataclass
class Reading:
    sensor: str
    value: float


def to_reading(line: str) -> Reading: ...
def to_pair(line: str) -> tuple[str, int]: ...
def to_user(line: str) -> UserId: ...
def to_unknown(line: str) -> Unknown: ...
def words(line: str) -> Iterator[str]: ...
def numbers(line: str) -> list[int]: ...
def maybe(line: str) -> Optional[Iterable[float]]: ...  # noqa: UP045
def generated(line: str) -> Generator[tuple[str, int], None, None]: ...
def any_length(line: str) -> tuple[int, ...]: ...
def with_sides(line: str) -> Iterable[int | tuple[OutputTag, str]]: ...
def nested(line: str) -> Iterable[list[int]]: ...
def plain(line): ...  # type: ignore[no-untyped-def]


class Parse(MapFunction):
    def map(self, value: Any) -> int:
        return int(value)


class Split(FlatMapFunction):
    def flat_map(self, value: str) -> Iterator[str]:
        yield from value.split()


class CallableObject:
    def __call__(self, value: str) -> float:
        return 0.0


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (to_reading, DataclassType(Reading)),
        (to_pair, TupleType((STRING, LONG))),
        (to_user, LONG),
        (to_unknown, PICKLED),
        (plain, PICKLED),
        (lambda x: x, PICKLED),
        (Parse().map, LONG),
        (CallableObject(), DOUBLE),
        (functools.partial(to_reading), DataclassType(Reading)),
        (str, STRING),
        (Reading, DataclassType(Reading)),
        (len, PICKLED),
    ],
)
def test_the_annotation_of_the_result_is_its_type(function: Any, expected: Any) -> None:
    assert result_type(function, None) == expected


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (words, STRING),
        (numbers, LONG),
        (maybe, DOUBLE),
        (generated, TupleType((STRING, LONG))),
        (any_length, LONG),
        (with_sides, LONG),
        (nested, ListType(LONG)),
        (Split().flat_map, STRING),
        (to_reading, PICKLED),
        (plain, PICKLED),
    ],
)
def test_the_elements_annotation_is_the_type_of_flat_results(function: Any, expected: Any) -> None:
    assert element_type(function, None) == expected


def test_a_declared_type_wins_over_the_annotation() -> None:
    assert result_type(to_reading, Types.STRING()) == STRING
    assert element_type(words, int) == LONG
    assert result_type(to_reading, tuple[int, str]) == TupleType((LONG, STRING))


def test_annotations_that_cannot_be_hashed_are_pickled() -> None:
    assert declared_type([]) == PICKLED


def test_a_rich_functions_method_is_what_gets_called() -> None:
    function = Parse()
    assert checked_callable("map", function, "map", 1) == function.map


def test_what_cannot_be_called_is_refused_with_the_operator() -> None:
    with pytest.raises(InvalidProgramError, match=r"map: expected a callable.*got int"):
        checked_callable("map", 3, "map", 1)
    with pytest.raises(InvalidProgramError, match=r"filter: expected a callable.*'filter'.*got Parse"):
        checked_callable("filter", Parse(), "filter", 1)


def test_the_number_of_arguments_is_checked() -> None:
    with pytest.raises(InvalidProgramError, match=r"reduce: .*cannot be called with 2 arguments"):
        checked_callable("reduce", lambda a: a, "reduce", 2)
    with pytest.raises(InvalidProgramError, match="one argument"):
        checked_callable("map", lambda: 1, "map", 1)
    checked_callable("map", lambda a, b=1: a, "map", 1)
    checked_callable("map", max, "map", 1)


def test_async_functions_are_refused() -> None:
    async def wait(value: int) -> int:
        return value

    with pytest.raises(InvalidProgramError, match="async"):
        checked_callable("map", wait, "map", 1)


def test_generators_are_refused_where_one_result_is_wanted() -> None:
    with pytest.raises(InvalidProgramError, match="is a generator function; use flat_map"):
        refuse_generator("map", Split().flat_map, "use flat_map")


def test_the_batch_format_follows_the_first_parameter() -> None:
    def frames(frame: pd.DataFrame) -> pd.DataFrame: ...
    def arrow(batch: pa.RecordBatch) -> pa.RecordBatch: ...
    def quoted(frame): ...  # type: ignore[no-untyped-def]
    def polars(frame): ...  # type: ignore[no-untyped-def]

    quoted.__annotations__["frame"] = "pd.DataFrame"
    polars.__annotations__["frame"] = "pl.DataFrame"
    quoted.__globals__.setdefault("pd", pd)

    class Model:
        def __call__(self, frame: pd.DataFrame) -> pd.DataFrame: ...

    assert batch_format_of(frames) == "pandas"
    assert batch_format_of(quoted) == "pandas"
    assert batch_format_of(Model()) == "pandas"
    assert batch_format_of(functools.partial(frames)) == "pandas"
    assert batch_format_of(arrow) == "arrow"
    assert batch_format_of(polars) == "arrow"
    assert batch_format_of(lambda batch: batch) == "arrow"
    assert batch_format_of(lambda: None) == "arrow"
    assert batch_format_of(max) == "arrow"


def test_a_pandas_annotation_that_cannot_be_resolved_is_still_recognised() -> None:
    namespace: dict[str, Any] = {}
    exec("def frames(frame: 'pandas.DataFrame'): return frame", namespace)
    assert batch_format_of(namespace["frames"]) == "pandas"
