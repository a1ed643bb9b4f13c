"""Blocking calls of an operator on a thread of their own."""

from __future__ import annotations

import threading

import pytest
from waiting import DEADLINE

from millstream.core.processes import task_thread
from millstream.taskmanager.worker.operators.serial_thread import SerialThread


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


def test_calls_run_in_their_order_on_one_thread() -> None:
    calls = SerialThread("in order")
    assert "in order" not in names()
    seen: list[tuple[int, str]] = []
    done = threading.Event()
    for number in range(100):
        calls.submit(lambda number=number: seen.append((number, threading.current_thread().name)))  # type: ignore[misc]
    calls.submit(done.set)
    assert done.wait(DEADLINE)
    calls.stop()
    assert seen == [(number, "in order") for number in range(100)]
    assert "in order" not in names()


def test_stopping_waits_for_the_running_call_and_drops_the_others() -> None:
    calls = SerialThread("stopping")
    begun, goes_on = threading.Event(), threading.Event()
    seen: list[str] = []

    def first() -> None:
        begun.set()
        assert goes_on.wait(DEADLINE)
        seen.append(f"first, stopped: {calls.is_stopped}")

    calls.submit(first)
    calls.submit(lambda: seen.append("second"))
    assert begun.wait(DEADLINE)
    stopping = threading.Thread(target=calls.stop)
    stopping.start()
    while not calls.is_stopped:
        begun.wait(0.001)
    goes_on.set()
    stopping.join(DEADLINE)
    assert seen == ["first, stopped: True"]


def test_a_call_that_does_not_return_is_abandoned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(task_thread, "GRACE", 0.01)
    calls, goes_on = SerialThread("hanging"), threading.Event()
    calls.submit(goes_on.wait)
    calls.stop()
    assert "hanging did not end within 0.01 s; its thread is abandoned" in caplog.text
    goes_on.set()


def test_one_that_was_never_used_has_no_thread() -> None:
    SerialThread("unused").stop()
    assert "unused" not in names()
