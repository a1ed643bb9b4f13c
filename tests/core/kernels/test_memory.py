"""Without memory, a call of an index raises a MemoryError and changes nothing; and all memory is freed."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from slots_model import SlotsModel

from millstream.core.kernels import native


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


def texts(keys: range) -> Any:
    return pa.array([f"key {key}" for key in keys])


KINDS = pytest.mark.parametrize(("kind", "made"), [("integer_index", integers), ("bytes_index", texts)])


@KINDS
def test_adding_keys(memory: Memory, tested_library: Path, kind: str, made: Callable[[range], Any]) -> None:
    make = getattr(native.load(tested_library), kind)
    for failing in range(100):
        index, model = make(), SlotsModel()
        index.slots(made(range(300)))
        model.slots(range(300))
        index.remove(made(range(0, 50, 2)))
        model.remove(range(0, 50, 2))
        memory.fail_after(failing)
        try:
            index.slots(made(range(200, 5000)))
        except MemoryError:
            pass
        else:
            break
        finally:
            memory.fail_after(-1)
        assert index.used().tolist() == list(model.keys_by_slot())
        assert index.find(made(range(5000))).tolist() == model.find(range(5000))
        slots, rows = index.slots(made(range(100, 6000)))
        assert (slots.tolist(), rows.tolist()) == model.slots(range(100, 6000))
    assert 3 < failing < 99, "each of the allocations failed once, and then none"


def test_without_memory_for_a_smaller_arena_the_larger_one_stays(memory: Memory, tested_library: Path) -> None:
    index = native.load(tested_library).bytes_index()
    index.slots(texts(range(5000)))
    memory.fail_after(0)
    index.remove(texts(range(4990)))
    memory.fail_after(-1)
    before = index.nbytes
    assert index.keys(index.used()).to_pylist() == [f"key {key}".encode() for key in range(4990, 5000)]
    index.remove(texts(range(4990, 4991)))
    assert index.nbytes < before
    assert index.keys(index.used()).to_pylist() == [f"key {key}".encode() for key in range(4991, 5000)]


@pytest.mark.parametrize("allowed", [0, 1])
@KINDS
def test_making_an_index(
    memory: Memory, tested_library: Path, kind: str, made: Callable[[range], Any], allowed: int
) -> None:
    make = getattr(native.load(tested_library), kind)
    memory.fail_after(allowed)
    with pytest.raises(MemoryError):
        make()
