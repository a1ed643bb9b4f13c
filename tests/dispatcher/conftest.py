"""Dispatchers for tests that need no options of their own."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from dispatcher_fixtures import Http, RunningDispatcher, configuration, dispatching, rest


@pytest.fixture
def dispatcher(tmp_path: Path) -> AbstractAsyncContextManager[RunningDispatcher]:
    return dispatching(configuration(tmp_path))


@pytest.fixture
def http(tmp_path: Path) -> AbstractAsyncContextManager[Http]:
    """The REST API of a dispatcher."""
    return rest(tmp_path)
