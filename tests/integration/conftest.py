from __future__ import annotations

from collections.abc import Iterator

import pytest
from system import Cluster, processes_with, wait_until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two task managers with two slots each; nothing of it may be left when it was stopped."""
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield from _running(made)


@pytest.fixture
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The same for one test, which may break it."""
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield from _running(made)


def _running(cluster: Cluster) -> Iterator[Cluster]:
    quick = {"heartbeat.interval": "500 ms", "heartbeat.timeout": "5 s", "slot.request.timeout": "4 s"}
    cluster.start(2, 2, **quick, **{"task.cancellation.timeout": "3 s", "task.cancellation.interval": "300 ms"})
    try:
        yield cluster
    finally:
        cluster.stop()
    wait_until(lambda: not processes_with(str(cluster.directory)), "every process of the cluster to be gone", 10)
