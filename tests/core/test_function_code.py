"""What is derived from the code of a user function, and above all what is not."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import pytest

from millstream.core.records.function_code import getter, is_plain_type, only_calculates, picked
from millstream.core.records.types import from_hint

LIST: list[int] = []


class Pair(NamedTuple):
    first: Any
    second: Any


class Selector:
    def get_key(self, value: Any) -> Any:
        return value[1]

    def itself(self, value: Any) -> Any:
        return self

    def stamp(self, value: Any, previous: int) -> Any:
        return value.second


@pytest.mark.parametrize(
    "function",
    [
        lambda v: v[0],
        lambda v, _: v[-1],
        lambda v: v.second,
        lambda v: v,
        lambda v, _: v,
        Selector().get_key,
        Selector().stamp,
    ],
)
def test_a_function_that_selects_a_part_has_an_equivalent_getter(function: Callable[..., Any]) -> None:
    found = getter(function)
    assert found is not None
    arguments = function.__code__.co_argcount - hasattr(function, "__self__")
    assert found(Pair("a", "b")) == function(*[Pair("a", "b"), 0][:arguments])


@pytest.mark.parametrize(
    "function",
    [
        lambda v, w: w, lambda v: v[0] + 1, lambda v: v[0][1], lambda v: v.first.real, lambda a, b: b[0],
        lambda *v: v[0], lambda v: LIST[0], lambda v: (yield v[0]), Selector().itself, len, Selector, None,
    ],
)  # fmt: skip
def test_any_other_function_has_none(function: Any) -> None:
    assert getter(function) is None


def test_a_getter_stands_for_itself() -> None:
    for part in itemgetter(0), attrgetter("first"):
        assert getter(part) is part


def test_a_getter_that_fails_for_a_row_selects_nothing() -> None:
    part = getter(lambda v: v[1])
    assert picked(part, [(1, 2), (3, 4)]) == [2, 4]
    assert picked(part, [(1, 2), (3,)]) is None
    assert picked(None, [(1, 2)]) is None


def test_a_function_that_returns_its_argument_selects_the_rows_themselves() -> None:
    assert picked(getter(lambda v, _: v), [1, 2]) == [1, 2]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x % 500, x),
        lambda word: (word, 1),
        lambda a, b: (a[0], a[1] + b[1]),
        lambda a, b: a if a > b else b,
        lambda x: f"{x:>10}" if x is not None and x not in (1, 2) else -x,
        lambda text: text[1:] * 2,
    ],
)
def test_expressions_of_operators_and_tuples_only_calculate(function: Any) -> None:
    assert only_calculates(function)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: [x], lambda x: {"x": x}, lambda x: {x}, lambda x: (LIST, x), lambda x, kept=LIST: (x, kept),
        lambda x, *, kept=LIST: (x, kept), lambda x: x.copy(), lambda x: len(x), lambda **named: named,
        lambda *all: all, lambda x: (yield x), lambda x: lambda: x, Selector().get_key, len, None,
    ],
)  # fmt: skip
def test_a_function_with_calls_global_names_or_containers_may_do_anything(function: Any) -> None:
    assert not only_calculates(function)


def test_the_contents_of_a_closure_may_change() -> None:
    held: list[int] = []
    assert not only_calculates(lambda x: (x, held))


def test_only_values_without_user_defined_classes_are_plain() -> None:
    for hint in int, tuple[str, tuple[int, float]]:
        assert is_plain_type(from_hint(hint))
    for hint in list[int], Pair, tuple[int, Any]:
        assert not is_plain_type(from_hint(hint))
