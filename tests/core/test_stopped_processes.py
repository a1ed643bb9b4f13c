"""What the kernel says of a process: running, stopped by a signal, traced, gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from processes import traced
from waiting import wait_until

from millstream.core.linux.processes import is_stopped, is_traced, processor_ticks


@pytest.mark.process
def test_a_process_that_is_stopped_is_told_from_one_that_waits() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            assert not is_stopped(process.pid)
            os.kill(process.pid, signal.SIGSTOP)
            wait_until(lambda: is_stopped(process.pid), "the process to be stopped")
            assert not is_traced(process.pid)
            os.kill(process.pid, signal.SIGCONT)
            wait_until(lambda: not is_stopped(process.pid), "the process to continue")
        finally:
            process.kill()
    assert not is_stopped(process.pid), "it is gone"
    assert not is_traced(process.pid)


@pytest.mark.process
def test_the_processor_time_of_a_process_grows_only_while_it_computes() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            wait_until(lambda: processor_ticks(process.pid) > 1, "the process to compute")
            os.kill(process.pid, signal.SIGSTOP)
            wait_until(lambda: is_stopped(process.pid), "the process to be stopped")
            assert processor_ticks(process.pid) == processor_ticks(process.pid) > 0
        finally:
            process.kill()
    assert processor_ticks(process.pid) == 0, "it is gone"


@pytest.mark.process
def test_a_process_with_a_debugger_is_traced() -> None:
    allowed = "import ctypes; ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1)); print(flush=True); input()"
    started = [sys.executable, "-c", allowed]
    with subprocess.Popen(started, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            with traced(process.pid):
                assert is_traced(process.pid)
            wait_until(lambda: not is_traced(process.pid), "the debugger to detach")
        finally:
            process.kill()
