"""The memory limit of a slot, in separate processes: it cannot be lifted."""

from __future__ import annotations

import subprocess
import sys

import pytest
from waiting import DEADLINE

from millstream.core.processes.memory import amount
from millstream.taskmanager.memory_limit import blamed_for, limit_memory
from millstream.taskmanager.testing import DEPLOYMENT
from millstream.taskmanager.worker.failures import describe_failure
from millstream.taskmanager.worker.operators.base import OperatorError

LIMITED = """
import mmap
import threading
import numpy
from millstream.taskmanager.testing import DEPLOYMENT
from millstream.taskmanager.worker.failures import describe_failure
from millstream.taskmanager.memory_limit import lifted, limit_memory
from millstream.taskmanager.worker.operators.base import OperatorError

limit_memory(48 << 20)
assert len(bytearray(40 << 20)) == 40 << 20, "what is allowed can be had"
with lifted():
    assert len(bytearray(200 << 20)) == 200 << 20

def hoard(value):
    return bytearray(200 << 20)

def hoard_arrays(value):
    return numpy.ones(25 << 20)

def hide(value):
    try:
        hoard(value)
    except MemoryError:
        raise ValueError("cannot work")

def map_memory(value):
    return mmap.mmap(-1, 200 << 20, flags=mmap.MAP_PRIVATE)

def start_thread(value):
    threading.stack_size(200 << 20)
    threading.Thread(target=int).start()

EXPECTED = {
    hoard: "MemoryError",
    hoard_arrays: "_ArrayMemoryError",
    hide: "ValueError: cannot work",
    map_memory: "OSError: [Errno 12]",
    start_thread: "RuntimeError: can't start new thread",
}
for function, name in EXPECTED.items():
    try:
        function(7)
    except Exception as error:
        failure = describe_failure(OperatorError("hoard", 7, error), DEPLOYMENT, 0)
    assert name in failure.exception, failure
    assert (failure.operator_name, failure.record) == ("hoard", "7")
    for text in (failure.exception, failure.traceback):
        assert "may take 48 mb (taskmanager.memory.task.heap.size)" in text, text
    assert function.__name__ in failure.traceback
"""


@pytest.mark.process
def test_a_function_that_exceeds_it_fails_with_the_option_and_its_value() -> None:
    command = [sys.executable, "-c", LIMITED]
    done = subprocess.run(command, timeout=DEADLINE, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_without_a_limit_no_option_is_blamed() -> None:
    limit_memory(0)
    assert blamed_for(MemoryError()) == ""
    failure = describe_failure(OperatorError("hoard", 7, MemoryError()), DEPLOYMENT, 0)
    assert failure.exception == "MemoryError"


def test_amounts_are_formatted_as_options_take_them() -> None:
    sizes = [0, 512, 1024, 1536, 300 << 20, 5 << 30, 3 << 40]
    assert list(map(amount, sizes)) == ["0 bytes", "512 bytes", "1 kb", "1.5 kb", "300 mb", "5 gb", "3 tb"]
