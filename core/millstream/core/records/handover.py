"""The handover of records from a producer to a receiver, which then is the only one that can change them.

A function may continue with what it yielded or returned: fill the same dictionary for the next record, keep it in an
attribute or in state. So a record that can be changed in place, at any depth, is copied when it is handed over. An
immutable record is handed over itself; that check takes 20 ns for a string or a number and 80 ns for a pair of them,
and is omitted if the declared type or an upstream operator guarantees it.

An object that cannot be copied is handed over itself, as long as it has no other holder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from millstream.core.errors import MillstreamError
from millstream.core.records.batches import Batch, RowBatch
from millstream.core.records.copying import ATOMIC, is_plain, private_copy

_OWN_REFERENCES = 4  # to an object in `_uncopied`: that list, the record that it is in, the loop, the call that counts


class RecordCopyError(MillstreamError):
    """A record has to be copied and cannot be."""

    def __init__(self, record: Any, why: str) -> None:
        super().__init__(
            f"a {type(record).__qualname__} cannot be copied, and {why}: hand over a new one for each record, give its "
            "class a __deepcopy__ method, or set pipeline.object-reuse to true, if no function changes such records"
        )
        self.record = record


class Handover:
    """Hands over the records of one producer. Without `copies`, it hands over the records themselves."""

    plain = False
    """Whether all records of the last batch are known to be values without parts, or tuples of such."""

    def __init__(self, copies: bool = True) -> None:
        self.copies = copies
        self._uncopied: list[Any] = []

    def all(self, records: Iterable[Any], inputs: Iterable[Any] = ()) -> list[Any]:
        """Iterates over the records, each copied before the next one is requested. For `inputs` see `done`."""
        if not self.copies:
            return list(records)
        handed = self._each(records)
        self.done(inputs)
        return handed

    def mapped(self, call: Callable[[Any], Any], source: Iterator[Any], inputs: Iterable[Any] = ()) -> list[Any]:
        """The same for what `call` makes of each input: not by `map`, which takes a StopIteration of it for the end.

        A loop of its own beside `_each`: by a generator, a pair would take 141 ns in place of 126, a number 83 for 69.
        """
        if not self.copies:
            return [call(row) for row in source]
        self.plain = True
        handed: list[Any] = []
        atomic, one = ATOMIC, self.one
        for row in source:
            record = call(row)
            if type(record) is tuple:
                if len(record) == 2:  # a quarter faster than the loop
                    first, second = record
                    if type(first) not in atomic or type(second) not in atomic:
                        record = one(record)
                else:
                    for item in record:
                        if type(item) not in atomic:
                            record = one(record)
                            break
            elif type(record) not in atomic:
                record = one(record)
            handed.append(record)
        record = item = first = second = None
        self.done(inputs)
        return handed

    def _each(self, records: Iterable[Any]) -> list[Any]:
        self.plain = True
        handed: list[Any] = []
        atomic, one = ATOMIC, self.one
        for record in records:
            if type(record) is tuple:
                if len(record) == 2:  # a quarter faster than the loop
                    first, second = record
                    if type(first) not in atomic or type(second) not in atomic:
                        record = one(record)
                else:
                    for item in record:
                        if type(item) not in atomic:
                            record = one(record)
                            break
            elif type(record) not in atomic:
                record = one(record)
            handed.append(record)
        return handed

    def one(self, record: Any) -> Any:
        """Returns a record that may be handed over; `done` is called after the last one."""
        if not self.copies or is_plain(record):
            return record
        self.plain = False
        try:
            return private_copy(record, self._uncopied)
        except RecursionError:
            self._uncopied.append(record)
            return record

    def done(self, inputs: Iterable[Any] = ()) -> None:
        """Raises a RecordCopyError if an object has another holder that could not be copied.

        Objects of `inputs`, which belong to the producer, may be handed over.
        """
        if not self._uncopied:
            return
        uncopied, self._uncopied = self._uncopied, []
        own = {id(part) for part in _parts(inputs)}
        for held in uncopied:
            if sys.getrefcount(held) > _OWN_REFERENCES and id(held) not in own:
                raise RecordCopyError(held, "the function that handed it over may still change it")

    def kept(self, record: Any) -> Any:
        """Returns a copy of a record that is both kept as state and handed over."""
        self.plain = False
        uncopied: list[Any] = []
        copied = private_copy(record, uncopied)
        if uncopied:
            raise RecordCopyError(uncopied[0], "it is both kept as state and handed over")
        return copied

    def to_another(self, batch: Batch) -> Batch:
        """Returns copies for another consumer of the records; columns cannot be changed, and are shared."""
        if not isinstance(batch, RowBatch) or batch.plain:
            return batch
        copies = self._each(batch.rows)
        if self._uncopied:
            uncopied, self._uncopied = self._uncopied, []
            raise RecordCopyError(uncopied[0], "several consumers would get the same one")
        return batch.with_rows(copies, self.plain)


def _parts(records: Iterable[Any]) -> Iterator[Any]:
    """Iterates over the records and their parts, in containers and attributes."""
    waiting, seen = list(records), set()
    while waiting:
        part = waiting.pop()
        if type(part) in ATOMIC or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, dict):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set | frozenset):
            waiting += part
        elif not isinstance(part, type):
            waiting += getattr(part, "__dict__", {}).values()
            slots = [vars(base).get("__slots__", ()) for base in type(part).__mro__]
            waiting += [getattr(part, name, None) for names in slots if not isinstance(names, str) for name in names]
