"""Marked themselves, so that only the watch of these tests is active; no process is started in the end."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from process_marks import ProcessWatch, UnmarkedProcessError

pytestmark = pytest.mark.process

WAYS: dict[str, Callable[[], Any]] = {
    "subprocess": lambda: subprocess.run(["true"], check=True),
    "os.system": lambda: os.system("true"),
    "os.posix_spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "os.fork": os.fork,
    "fork": lambda: multiprocessing.get_context("fork").Process().start(),
    "spawn": lambda: multiprocessing.get_context("spawn").Process().start(),
}


@pytest.fixture(scope="module")
def watch() -> ProcessWatch:
    return ProcessWatch()


@pytest.mark.parametrize("start", WAYS.values(), ids=WAYS)
def test_a_test_that_is_not_marked_starts_no_process(watch: ProcessWatch, start: Callable[[], Any]) -> None:
    with pytest.raises(UnmarkedProcessError, match="test_x starts a process"), watch.over("test_x"):
        start()


def test_catching_the_error_does_not_help(watch: ProcessWatch) -> None:
    with pytest.raises(UnmarkedProcessError), watch.over("test_x"), suppress(Exception):
        subprocess.run(["true"], check=True)
