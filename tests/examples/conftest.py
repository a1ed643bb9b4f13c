"""Starts examples, and sees to it that nothing of them is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from example_process import Example


@pytest.fixture
def start_example(tmp_path: Path) -> Iterator[Callable[..., Example]]:
    started: list[Example] = []

    def start(name: str, *arguments: str) -> Example:
        started.append(Example(name, arguments, tmp_path))
        return started[-1]

    try:
        yield start
        assert [pid for example in started for pid in example.processes()] == []
    finally:
        for example in started:
            example.kill()
