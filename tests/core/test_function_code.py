"""What is derived from the code of a user function, and above all what is not."""

from __future__ import annotations

import dis
import logging
import sys
from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import pytest
from interpreters import INTERPRETERS, run_in

from millstream.core.records import function_code
from millstream.core.records.copying import is_plain_type
from millstream.core.records.function_code import getter, only_calculates, picked
from millstream.core.records.instructions import is_known
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
        lambda pair: (pair[1] % 500 == 0 and not pair[0]) or 0 < pair[0] < 5,
        lambda x: 1,
        lambda a, b: a + b if a else f"{b!r}",
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


def test_all_instructions_of_this_interpreter_are_known() -> None:
    assert [name for name in dis.opmap if not is_known(name)] == []


def test_an_unknown_instruction_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(function_code, "is_known", lambda name: name != "RETURN_VALUE")
    monkeypatch.setattr(function_code, "_warned", [])
    with caplog.at_level(logging.WARNING):
        assert getter(lambda v: v[0]) is not None
        assert only_calculates(lambda v: v + 1)
    (record,) = caplog.records
    assert f"Python {sys.version_info[0]}.{sys.version_info[1]} has bytecode instructions" in record.getMessage()
    assert "(RETURN_VALUE)" in record.getMessage()


_FAST_PATHS = """
import dis
from millstream.core.records.function_code import getter, itself, only_calculates
from millstream.core.records.instructions import is_known

unknown = [name for name in dis.opmap if not is_known(name)]
assert not unknown, unknown

class Selector:
    def get_key(self, value):
        return value[1]

for function in (lambda v: v[0], lambda v, _: v[-1], lambda v: v.real, Selector().get_key):
    assert getter(function) not in (None, itself), function.__code__.co_code
assert getter(lambda v: v) is itself
for function in (
    lambda x: (x % 500, x), lambda a, b: (a[0], a[1] + b[1]), lambda a, b: a if a > b else b, lambda t: t[1:] * 2,
    lambda x: f"{x:>10}" if x is not None and x not in (1, 2) else -x, lambda p: p[1] % 500 == 0, lambda x: 1,
    lambda p: not p[0] or 0 < p[1] < 5, lambda a, b: a + b, lambda x: f"{x!r}",
):
    assert only_calculates(function), list(dis.get_instructions(function))
for function in (lambda x: [x], lambda x: x.copy(), lambda x: len(x), lambda x: {**x}):
    assert not only_calculates(function), list(dis.get_instructions(function))
print("taken")
"""


@pytest.mark.process
@pytest.mark.parametrize("version", INTERPRETERS)
def test_the_fast_paths_are_taken_by_other_interpreters(version: str) -> None:
    assert run_in(version, _FAST_PATHS) == "taken\n"
