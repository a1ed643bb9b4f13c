"""The life of a job's checkpoints: what each phase allows, in any order of calls."""

from __future__ import annotations

from itertools import product

import pytest

from millstream.jobmanager.job_checkpoints.life import Life, Phase

CALLS = ("suspend", "conclude", "stop", "end")


@pytest.mark.parametrize(
    ("calls", "phase"),
    [
        ((), Phase.TAKING),
        (("conclude",), Phase.CONCLUDING),
        (("conclude", "stop"), Phase.STOPPING),
        (("conclude", "stop", "end"), Phase.ENDED),
        (("suspend",), Phase.SUSPENDED),
        (("suspend", "conclude"), Phase.WITHDRAWN),
        (("conclude", "suspend"), Phase.WITHDRAWN),
        (("conclude", "suspend", "stop"), Phase.ENDED),
        (("suspend", "stop"), Phase.ENDED),
        (("stop", "suspend"), Phase.ENDED),
    ],
)
def test_the_phases_of_a_life(calls: tuple[str, ...], phase: Phase) -> None:
    life = Life()
    for call in calls:
        getattr(life, call)()
    assert life.phase is phase


def test_the_order_of_calls_does_not_matter_for_what_is_allowed() -> None:
    """No call gives back what an earlier one has taken, and each takes what it says."""
    for calls in product(CALLS, repeat=4):
        life, before = Life(), (True, True, False)
        for index, call in enumerate(calls):
            getattr(life, call)()
            made = set(calls[: index + 1])
            now = (life.is_active, life.may_complete, life.is_over)
            assert now[0] <= before[0]
            assert now[1] <= before[1]
            assert now[2] >= before[2]
            assert life.may_complete == made.isdisjoint({"conclude", "stop"})
            assert life.is_over == ("stop" in made)
            if "suspend" in made:
                assert not life.is_active
            before = now
