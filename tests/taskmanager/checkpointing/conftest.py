"""A worker that takes checkpoints into a folder of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from checkpoint_rig import CheckpointRig


@pytest.fixture
def options() -> dict[str, str]:
    """The worker's configuration; a module may define its own."""
    return {}


@pytest.fixture
def rig(tmp_path: Path, options: dict[str, str]) -> Iterator[CheckpointRig]:
    made = CheckpointRig(tmp_path, **options)
    yield made
    made.close()
