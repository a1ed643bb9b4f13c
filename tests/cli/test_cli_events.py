from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.process

JOB = "0123456789abcdef" * 2


def test_what_happened_to_the_parallelism_of_a_job(cli: Any, fake_cluster: Any) -> None:
    events = [
        {"timestamp": 1_700_000_000_000, "kind": "SCALING_DECISION", "message": "'map' 1 -> 2: busy 99%"},
        {"timestamp": 1_700_000_001_000, "kind": "RESCALE_COMPLETED", "message": "the job runs at parallelism 2"},
    ]
    fake_cluster.responses[f"GET /jobs/{JOB}/events"] = (200, {"events": events})
    lines = cli("events", "-m", fake_cluster.address, JOB).stdout.splitlines()
    assert lines[0].endswith("  SCALING_DECISION: 'map' 1 -> 2: busy 99%")
    assert lines[1].endswith("  RESCALE_COMPLETED: the job runs at parallelism 2")
    assert json.loads(cli("events", "-m", fake_cluster.address, "--json", JOB).stdout) == {"events": events}
    fake_cluster.responses[f"GET /jobs/{JOB}/events"] = (200, {"events": []})
    assert cli("events", "-m", fake_cluster.address, JOB).stdout == "No events.\n"
    assert ": no job 'no/id': " in cli.fails("events", "-m", fake_cluster.address, "no/id")
