from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.process

JOB = "0123456789abcdef" * 2


def response(fake_cluster: Any, **more: Any) -> dict[str, Any]:
    stall = {
        "jid": JOB, "name": "orders", "state": "RUNNING", "timestamp": 0, "summary": "Nothing holds it back.",
        "findings": [], "waiting": [], **more,
    }  # fmt: skip
    fake_cluster.responses[f"GET /jobs/{JOB}/stall"] = (200, stall)
    return stall


def finding(message: str, advice: str | None = None) -> dict[str, Any]:
    return {"kind": "X", "message": message, "advice": advice, "vertex-id": None, "operator": None, "since": None}


def test_findings_with_what_to_do_and_what_waits(cli: Any, fake_cluster: Any) -> None:
    windows = {
        "vertex-id": "v", "operator": "Window", "kind": "WINDOWS", "message": "'Window': 3 open windows " * 4,
        "open": 3, "records-since-last-firing": 120, "event-time": None, "next-event-time": 10_000,
        "next-processing-time": None,
    }  # fmt: skip
    timers = {**windows, "operator": "Remind\n", "kind": "TIMERS", "message": "'Remind\n': 3 keys with timers"}
    stall = response(
        fake_cluster,
        summary="2 things hold it back.",
        findings=[finding("a word " * 20 + "end.", "do it"), finding("Short.")],
        waiting=[windows, timers],
    )
    done = cli("explain-idle", "-m", fake_cluster.address, JOB)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"Job 'orders' ({JOB}) is RUNNING. 2 things hold it back.",
        "",
        "1. " + ("a word " * 14).strip(),
        "   " + "a word " * 6 + "end.",
        "   What to do: do it",
        "",
        "2. Short.",
        "",
        "What waits:",
        "- 'Window': 3 open windows 'Window': 3 open windows 'Window': 3 open windows 'Window': 3 open",
        "  windows",
        "- 'Remind\\n': 3 keys with timers",
    ]
    assert json.loads(cli("explain-idle", "-m", fake_cluster.address, "--json", JOB).stdout) == stall


def test_a_healthy_job_an_ended_one_and_an_unknown_one(cli: Any, fake_cluster: Any) -> None:
    response(fake_cluster)
    done = cli("explain-idle", "-m", fake_cluster.address, JOB)
    assert done.stdout == f"Job 'orders' ({JOB}) is RUNNING. Nothing holds it back.\n"
    why = "The job has failed: ValueError: bad"
    response(fake_cluster, state="FAILED", summary=why, findings=[finding(why, "look at it")])
    done = cli("explain-idle", "-m", fake_cluster.address, JOB)
    assert done.stdout == f"Job 'orders' ({JOB}) is FAILED. {why}\n   What to do: look at it\n"
    assert "Not found" in cli.fails("explain-idle", "-m", fake_cluster.address, "f" * 32)
    assert ": no job 'no/id': " in cli.fails("explain-idle", "-m", fake_cluster.address, "no/id")
