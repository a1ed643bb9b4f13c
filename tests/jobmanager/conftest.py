"""What tests of the job manager run in."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import pytest
from fake_cluster import Cluster, running_cluster


@pytest.fixture
def cluster() -> AbstractAsyncContextManager[Cluster]:
    return running_cluster()
