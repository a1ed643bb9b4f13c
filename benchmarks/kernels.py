"""The kernels on one core, native against their NumPy twins: hashes of key columns, and look-ups in a growing index.

Keys are looked up in batches of 65,536, in random order; all of them are in the index, unless the row says otherwise.
Figures are per second of processor time, the best of several runs. Both implementations return the same, which is
checked.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rows import BenchmarkError, Peer, Row, Scale, Target, at_least, check, times_the_peer

from millstream.core.kernels import native
from millstream.core.kernels.contract import Kernels
from millstream.core.kernels.twin import NumpyKernels

BATCH = 1 << 16
TIMES = 5
ROWS = 2_000_000


def measure(scale: Scale) -> list[Row]:
    try:
        implementations = (native.load(), NumpyKernels())
    except OSError as error:
        raise BenchmarkError(f"there is no native library to compare: {error}") from error
    rows = scale.of(ROWS)
    return [*_hashes(implementations, rows), *_integers(implementations, rows), *_texts(implementations, rows)]


def _hashes(implementations: tuple[Kernels, Kernels], rows: int) -> list[Row]:
    random = np.random.default_rng(1)
    integers = pa.array(random.integers(-(2**62), 2**62, rows))
    few, different = _users(np.arange(rows) % 10_000), _users(np.arange(10**9, 10**9 + rows))
    calls: list[tuple[str, Callable[[Kernels], Any]]] = [
        ("integers", lambda kernels: kernels.hash_integers(integers)),
        ("10 k texts", lambda kernels: kernels.hash_texts(few, 1)),
        ("different texts of 15 bytes", lambda kernels: kernels.hash_texts(different, 1)),
        (
            "composites of an integer and one of 10 k texts",
            lambda kernels: kernels.hash_composite([kernels.hash_integers(integers), kernels.hash_texts(few, 1)]),
        ),
    ]
    found = []
    for name, call in calls:
        check(all((call(k) == call(implementations[0])).all() for k in implementations), f"the hashes of {name} differ")
        found.append(_row(f"hashes of {name}", implementations, rows, call, at_least(50e6)))
    return found


def _integers(implementations: tuple[Kernels, Kernels], rows: int) -> list[Row]:
    random = np.random.default_rng(2)
    found = []
    for keys, target in ((1000, None), (1_000_000, at_least(60e6))):
        known = random.permutation(np.unique(random.integers(-(2**62), 2**62, 2 * keys)))[:keys].copy()
        probes = known[random.integers(0, keys, rows)]
        batches = [probes[start : start + BATCH] for start in range(0, rows, BATCH)]
        added = [known[start : start + BATCH] for start in range(0, keys, BATCH)]
        indexes = {}
        for kernels in implementations:
            index = indexes[kernels.name] = kernels.integer_index()
            for batch in added:
                index.slots(batch)
        slots = [np.concatenate([index.find(batch) for batch in batches]) for index in indexes.values()]
        check((slots[0] == slots[1]).all() and (slots[0] >= 0).all(), "the slots of integers differ")

        def find(kernels: Kernels, indexes: dict[str, Any] = indexes, batches: list[Any] = batches) -> None:
            index = indexes[kernels.name]
            for batch in batches:
                index.find(batch)

        def add(kernels: Kernels, added: list[Any] = added) -> None:
            index = kernels.integer_index()
            for batch in added:
                index.slots(batch)

        name = f"{keys:,} int64 keys"
        found.append(_row(f"look-ups in {name}", implementations, rows, find, target, times_the_peer(8)))
        if target is not None:
            found.append(_row(f"adding {name}", implementations, keys, add))
            each = indexes["native"].nbytes / keys
            found.append(Row(f"memory of {name}", each, "bytes a key"))
    return found


def _texts(implementations: tuple[Kernels, Kernels], rows: int) -> list[Row]:
    random = np.random.default_rng(3)
    found = []
    for keys in (10_000, 1_000_000):
        known = _users(np.arange(10**9, 10**9 + keys))
        probes = known.take(pa.array(random.integers(0, keys, rows)))
        indexes = {}
        for kernels in implementations:
            indexes[kernels.name] = kernels.bytes_index()
            indexes[kernels.name].slots(known)
        slots = [index.find(probes) for index in indexes.values()]
        check((slots[0] == slots[1]).all() and (slots[0] >= 0).all(), "the slots of texts differ")

        def find(kernels: Kernels, indexes: dict[str, Any] = indexes, probes: Any = probes) -> None:
            for start in range(0, len(probes), BATCH):
                indexes[kernels.name].find(probes[start : start + BATCH])

        found.append(_row(f"look-ups in {keys:,} texts of 15 bytes", implementations, rows, find))
    return found


def _users(numbers: Any) -> Any:
    """Texts with these numbers."""
    return pc.binary_join_element_wise("user-", pa.array(numbers).cast(pa.string()), "")


def _row(
    what: str, implementations: tuple[Kernels, Kernels], rows: int, call: Callable[[Kernels], Any],
    target: Target | None = None, relative: Target | None = None,
) -> Row:  # fmt: skip
    """A row with one target; of two, the other one is in the note."""
    rates = [rows / min(_seconds(lambda k=kernels: call(k)) for _ in range(TIMES)) for kernels in implementations]
    note = ""
    if target is not None and relative is not None:
        met = "met" if relative.is_met(rates[0] / rates[1]) else "not met"
        note = f"the other target, {relative.limit:g} x the NumPy twin, is {met}"
    return Row(what, rates[0], "rows/s", target, Peer("NumPy twin", rates[1]), note)


def _seconds(call: Callable[[], Any]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin
