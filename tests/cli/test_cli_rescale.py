"""`rescale` against a fake REST API."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.process

DONE = {"status": {"id": "COMPLETED"}, "operation": {"message": "the job runs at parallelism 3"}}


def test_a_dispatcher_that_follows_another_one_is_requested_the_same(cli: Any, fake_cluster: Any) -> None:
    path = "/jobs/abc/rescaling"
    given = iter(["t1", "t2"])
    fake_cluster.responses[f"PATCH {path}?parallelism=3"] = lambda: (202, {"request-id": next(given)})
    fake_cluster.responses[f"GET {path}/t1"] = (404, {"errors": ["there is no operation t1"]})
    fake_cluster.responses[f"GET {path}/t2"] = (200, DONE)
    ran = cli("rescale", "-m", fake_cluster.address, "-p", "3", "abc")
    assert (ran.returncode, ran.stdout) == (0, "The job runs at parallelism 3.\n"), ran.stderr
