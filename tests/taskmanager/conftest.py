"""A worker for the tests of what runs in one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from worker_rig import WorkerRig


@pytest.fixture
def rig() -> Iterator[WorkerRig]:
    """A worker that takes its turns when the test requests them."""
    made = WorkerRig()
    yield made
    made.close()
