"""Without memory, a call of an index raises a MemoryError and changes nothing; and all memory is freed."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slots_model import SlotsModel

from millstream.core.kernels import native
from millstream.core.kernels.contract import Kernels

Batch = Callable[[Kernels], tuple[Any, Callable[[range], Any]]]


class Memory:
    """Lets allocations fail, and counts blocks."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.mk_blocks.restype = ctypes.c_int64
        self._library.mk_fail_after.argtypes = [ctypes.c_int64]

    def fail_after(self, count: int) -> None:
        self._library.mk_fail_after(count)

    def blocks(self) -> int:
        gc.collect()
        found: int = self._library.mk_blocks()
        return found


@pytest.fixture
def memory(tested_library: Path) -> Iterator[Memory]:
    memory = Memory(tested_library)
    before = memory.blocks()
    yield memory
    memory.fail_after(-1)
    assert memory.blocks() == before, "memory was not freed"


def integers(keys: range) -> Any:
    return np.array(keys, np.int64)


def test_adding_keys(memory: Memory, tested_library: Path) -> None:
    kernels = native.load(tested_library)
    failures = 0
    while failures < 100:
        index, model = kernels.integer_index(), SlotsModel()
        for call in (index.slots, model.slots):
            call(integers(range(0, 300)) if call == index.slots else range(0, 300))
        index.remove(integers(range(0, 50, 2)))
        model.remove(range(0, 50, 2))
        before = index.used().tolist()
        memory.fail_after(failures)
        try:
            index.slots(integers(range(200, 5000)))
        except MemoryError:
            failures += 1
        else:
            break
        finally:
            memory.fail_after(-1)
        assert index.used().tolist() == before
        assert index.find(integers(range(0, 5000))).tolist() == model.find(range(0, 5000))
        slots, rows = index.slots(integers(range(100, 6000)))
        assert (slots.tolist(), rows.tolist()) == model.slots(range(100, 6000))
    assert 3 < failures < 100, "each of the allocations failed once, and then none"


@pytest.mark.parametrize("allowed", [0, 1])
def test_making_an_index(memory: Memory, tested_library: Path, allowed: int) -> None:
    kernels = native.load(tested_library)
    memory.fail_after(allowed)
    with pytest.raises(MemoryError):
        kernels.integer_index()
