"""Mistakes in the product are found by the schedules of CI: else those that find nothing would prove nothing."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

import pytest
import seeded_bugs
import seeded_data_bugs
from schedules import replay
from shapes import LONG, SHORT, STANDBYS, UNREACHED, Shape
from simulation import SimulationFailed, simulate

pytestmark = pytest.mark.slow

Bug = Callable[[], AbstractContextManager[None]]


def first_failure(bug: Bug, shape: Shape, seeds: Iterable[int], message: str) -> SimulationFailed | None:
    """The first of these schedules that fails with such a message."""
    with bug(), tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            try:
                simulate(seed, folder, shape)
            except SimulationFailed as failed:
                if re.search(message, str(failed.cause)):
                    return failed
    return None


@pytest.mark.parametrize(
    ("bug", "shape", "seeds", "message"),
    [
        (seeded_bugs.pointer_before_metadata, SHORT, range(200), "was stored before its metadata"),
        (seeded_bugs.commits_before_pointer, SHORT, range(200), "no completed checkpoint holds it"),
        (seeded_bugs.slot_freed_twice, SHORT, range(200), "more workers than slots|no rest"),
        (seeded_bugs.lease_never_ends, LONG, range(60), "which is reported as FAILED"),
        (seeded_bugs.epochs_not_compared, STANDBYS, range(300, 2_000), "was looked for and"),
        (seeded_bugs.writes_not_fenced, STANDBYS, range(2_000), "epoch .* wrote"),
        (seeded_bugs.recalls_not_looked_for, UNREACHED, range(100), "no rest"),
        (seeded_bugs.ids_come_again, STANDBYS, range(1_200, 5_000), "has come twice"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_mistake_is_found_within_few_schedules(bug: Bug, shape: Shape, seeds: range, message: str) -> None:
    assert first_failure(bug, shape, seeds, message) is not None


LOST_OR_DOUBLED = "is no cut|twice|has not committed|is aborted after|no completed checkpoint|counts|deleted checkpoint"


@pytest.mark.parametrize("bug", seeded_data_bugs.LOSING, ids=lambda bug: bug.__name__)
def test_a_mistake_that_loses_or_doubles_records_is_found_within_200_schedules(bug: Bug) -> None:
    assert first_failure(bug, SHORT, range(200), LOST_OR_DOUBLED) is not None


def test_a_seed_that_fails_does_so_again_at_the_same_event_with_the_story_of_its_job() -> None:
    bug = seeded_bugs.commits_before_pointer
    failed = first_failure(bug, SHORT, range(200), "no completed checkpoint holds it")
    assert failed is not None
    with bug(), tempfile.TemporaryDirectory() as folder:
        again = replay(failed, folder, SHORT)
    assert isinstance(again, SimulationFailed)
    assert str(again).splitlines()[0] == str(failed).splitlines()[0]
    story = str(again)
    for part in ("SubmitJobRequest", "SlotOffer", "DeployTasks", "TriggerCheckpoint", "CheckpointAck", "commits"):
        assert part in story
    for dull in ("Heartbeat", "Overview", "JobList"):
        assert dull not in story
    assert f"make simulate SEEDS={failed.seed}" in story
