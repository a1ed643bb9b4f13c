"""Tests that start a process carry the marker `process`; any other test that starts one fails with an explanation.

So `-m "not process"` takes seconds, with several tests at a time: `make check`, and the first part of `make test`. An
audit hook enforces the rule: it sees every process that a thread of this process starts, by whatever library.
"""

from __future__ import annotations

import multiprocessing.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

# an event of our own: Python reports none where `multiprocessing` starts a fresh interpreter
_SPAWNING = "multiprocessing.spawn"
_STARTING = {"os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen", _SPAWNING}


class UnmarkedProcessError(AssertionError):
    """A test without the marker `process` was about to start one."""


class ProcessWatch:
    """Prevents that a process starts in a test that is not marked; the test fails even if it catches the error."""

    def __init__(self) -> None:
        self._pid = os.getpid()  # a forked child inherits the hook, and may start processes
        self._test: str | None = None
        self._caught: UnmarkedProcessError | None = None
        sys.addaudithook(self._saw)

    @contextmanager
    def over(self, test: str) -> Iterator[None]:
        """No process may start inside of the context."""
        self._test, self._caught = test, None
        try:
            yield
        finally:
            self._test = None
            if self._caught:
                raise self._caught

    def _saw(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _STARTING and self._test is not None and os.getpid() == self._pid:
            self._caught = UnmarkedProcessError(
                f"{self._test} starts a process ({' '.join([event, *map(str, arguments[:1])])}):"
                " mark it, or its module, with pytest.mark.process, or test the same without a process"
            )
            raise self._caught


class ProcessMarks:
    """The pytest plugin.

    The teardown of fixtures is not watched: they may be shared with marked tests of the module.
    """

    def __init__(self) -> None:
        self._watch = ProcessWatch()
        spawn = multiprocessing.util.spawnv_passfds  # type: ignore[attr-defined]

        def audited(path: bytes, *arguments: Any) -> Any:
            sys.audit(_SPAWNING, path)
            return spawn(path, *arguments)

        multiprocessing.util.spawnv_passfds = audited  # type: ignore[attr-defined]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        with self._watched(item):
            yield

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        with self._watched(item):
            yield

    @contextmanager
    def _watched(self, item: pytest.Item) -> Iterator[None]:
        if item.get_closest_marker("process"):
            yield
        else:
            with self._watch.over(item.nodeid):
                yield
