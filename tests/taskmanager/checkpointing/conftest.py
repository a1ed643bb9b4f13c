"""A worker that takes checkpoints into a folder of the test's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from checkpoint_rig import CheckpointRig


@pytest.fixture
def options() -> dict[str, str]:
    """What the worker is configured with; a module may have its own."""
    return {}


@pytest.fixture
def rig(tmp_path: Path, options: dict[str, str]) -> Iterator[CheckpointRig]:
    made = CheckpointRig(tmp_path, **options)
    yield made
    made.close()
