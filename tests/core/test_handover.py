"""Records that a producer emits are not shared with others, or are refused; immutable ones are passed by reference."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from millstream.core.records.batches import RowBatch
from millstream.core.records.handover import Handover, RecordCopyError


class Connection:
    """Cannot be copied, as it holds a lock."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.lock = threading.Lock()


def one_buffer(make: Callable[[], Any], change: Callable[[Any, int], None]) -> Iterator[Any]:
    buffer = make()
    for number in range(3):
        change(buffer, number)
        yield buffer
    change(buffer, -1)


def set_field(buffer: dict[str, int], number: int) -> None:
    buffer["n"] = number


def test_one_buffer_gives_as_many_records() -> None:
    assert Handover().all(one_buffer(dict, set_field)) == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert Handover().all(one_buffer(list, list.append)) == [[0], [0, 1], [0, 1, 2]]
    inner: list[int] = []
    pairs = ((n, "a", inner) for n in range(3) if inner.append(n) is None)
    assert Handover().all(pairs) == [(0, "a", [0]), (1, "a", [0, 1]), (2, "a", [0, 1, 2])]


def test_the_results_of_a_function_that_fills_one_buffer() -> None:
    buffer: dict[str, int] = {}

    def fill(number: int) -> dict[str, int]:
        buffer["n"] = number
        return buffer

    assert Handover().mapped(fill, iter(range(3))) == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert Handover(copies=False).mapped(fill, iter(range(3))) == [{"n": 2}] * 3


def test_a_function_that_raises_stop_iteration_does_not_end_the_batch() -> None:
    for copies in (True, False):
        with pytest.raises(StopIteration):
            Handover(copies).mapped(lambda row: next(iter(())), iter([1, 2]))


def test_immutable_values_are_passed_by_reference() -> None:
    records = ["a", 1, (1, "a"), (1, ("a", 2.5)), None, frozenset({1})]
    for handed, record in zip(Handover().all(iter(records)), records, strict=True):
        assert handed is record


def test_without_copies_everything_is_passed_by_reference() -> None:
    records = [{}, [Connection()]]
    assert all(a is b for a, b in zip(Handover(copies=False).all(records), records, strict=True))
    assert Handover(copies=False).one(records) is records


def test_an_uncopyable_record_is_passed_if_it_is_not_referenced_elsewhere() -> None:
    handover = Handover()
    assert [c.number for c in handover.mapped(Connection, iter(range(3)))] == [0, 1, 2]
    assert len(handover.all(Connection() for _ in range(3))) == 3
    assert len(handover.all({"c": Connection(), "l": [n]} for n in range(3))) == 3

    def by_a_variable() -> Iterator[Any]:
        for number in range(3):
            connection = Connection(number)
            yield connection

    assert [c.number for c in handover.all(by_a_variable())] == [0, 1, 2]


def test_an_uncopyable_record_is_passed_if_it_is_the_input() -> None:
    rows = [Connection(n) for n in range(3)]
    records = [{"c": row} for row in rows]
    handover = Handover()
    assert handover.all(iter(rows), rows) == rows
    assert handover.mapped(lambda row: row["c"], iter(records), records) == rows
    assert handover.mapped(lambda row: [row["c"], 1], iter(records), records) == [[row, 1] for row in rows]


@pytest.mark.parametrize(
    "make", [lambda c: c, lambda c: (1, c), lambda c: {"c": [c]}], ids=["itself", "in a tuple", "in a dict"]
)
def test_an_uncopyable_record_is_refused_if_its_producer_keeps_it(make: Callable[[Any], Any]) -> None:
    kept = Connection()
    with pytest.raises(RecordCopyError, match=r"a Connection cannot be copied.*pipeline\.object-reuse") as failure:
        Handover().all(make(kept) for _ in range(2))
    assert failure.value.record is kept
    with pytest.raises(RecordCopyError):
        Handover().mapped(lambda row: make(kept), iter([1]))


def test_a_refusal_affects_only_its_batch() -> None:
    handover, kept = Handover(), Connection()
    with pytest.raises(RecordCopyError):
        handover.all([kept])
    assert handover.all([{}]) == [{}]


def test_records_nested_too_deeply_for_inspection_are_passed() -> None:
    deep: Any = ()
    for _ in range(100_000):
        deep = (deep,)
    handed = Handover().mapped(lambda row: deep, iter([1]), [deep])
    assert handed[0] is deep
    while deep:  # from the outside in: freeing it at once would recurse as deeply
        (deep,), handed = deep, [None]


def test_another_consumer_gets_its_own_records() -> None:
    records = [{"a": [1]}, "a", (1, [2])]
    copies = Handover().to_another(RowBatch(records)).rows
    assert copies == records
    assert copies[0]["a"] is not records[0]["a"]  # type: ignore[index]  # of various types
    assert copies[1] is records[1]
    with pytest.raises(RecordCopyError, match="several consumers"):
        Handover().to_another(RowBatch([Connection()]))


def test_records_that_are_kept_and_emitted_have_to_be_copied() -> None:
    value = [1]
    assert Handover().kept(value) == value
    assert Handover().kept(value) is not value
    with pytest.raises(RecordCopyError, match="kept as state"):
        Handover().kept([Connection()])


@pytest.mark.parametrize(
    ("records", "plain"),
    [
        ([1, "a", None, (), ("k", 1), (1, 2.0, b"c")], True),
        ([1, [2]], False),
        ([("k", [1])], False),
        ([("k", 1, {})], False),
        ([(("nested",), 1)], False),
    ],
)
def test_a_batch_is_plain_if_all_its_records_are_immutable(records: list[Any], plain: bool) -> None:
    handover = Handover()
    assert handover.plain is False
    for _ in range(2):
        assert handover.all(iter(records)) == records
        assert handover.plain is plain
        assert handover.mapped(lambda record: record, iter(records)) == records
        assert handover.plain is plain
        assert handover.to_another(RowBatch(records)).plain is plain


def test_the_records_of_a_plain_batch_are_not_inspected_again() -> None:
    batch = RowBatch([("k", 1)], None, plain=True)
    assert Handover().to_another(batch) is batch
