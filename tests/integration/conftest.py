from __future__ import annotations

from collections.abc import Iterator

import pytest
from system import QUICK, Cluster, running_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two task managers with two slots each; nothing of it may be left after it was stopped."""
    with running_cluster(tmp_path_factory.mktemp("cluster"), 2, 2, **QUICK) as made:
        yield made


@pytest.fixture
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The same for one test, which may break it; a service that is silent for some seconds counts as lost."""
    with running_cluster(tmp_path_factory.mktemp("cluster"), 2, 2, **QUICK, **{"heartbeat.timeout": "8 s"}) as made:
        yield made


@pytest.fixture
def lone_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The same without high availability: a service that is lost loses its state."""
    options = {**QUICK, "heartbeat.timeout": "8 s", "high-availability.type": "none"}
    with running_cluster(tmp_path_factory.mktemp("cluster"), 2, 2, **options) as made:
        yield made


@pytest.fixture(autouse=True)
def jobs_of_one_test_only(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test of a shared cluster finds no slot in use and no worker of another test's job, even if that failed."""
    shared = request.getfixturevalue("cluster") if "cluster" in request.fixturenames else None
    yield
    if shared is not None:
        shared.clear()
