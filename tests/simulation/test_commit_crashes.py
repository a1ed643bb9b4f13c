"""A crash at every single step of checkpoint completion and of the two-phase commit: nothing is lost, nothing doubled.

A schedule that fails is printed with its story; `CommitWorld(count, crashes, ...).run()` replays it.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from commit_world import KINDS, CommitWorld, Crashes
from thoroughness import every

pytestmark = pytest.mark.slow


def run(count: int, crashes: Crashes, **options: Any) -> CommitWorld:
    world = CommitWorld(count, crashes, **options)
    try:
        return world.run()
    except BaseException as error:
        story = "\n".join(world.story)
        raise AssertionError(f"CommitWorld({count}, {crashes!r}, **{options!r}): {error}\n{story}") from error


def test_the_straight_run_goes_through_every_kind_of_step() -> None:
    world = run(3, ())
    story = "\n".join(world.story)
    for part in ("is pre-committed", "the metadata of", "the pointer to", "is committed", "is deleted", "InputsEnded"):
        assert part in story
    assert {transaction.status for transaction in world.store.values()} == {"committed"}


@pytest.mark.parametrize("overlap", [{}, {"concurrent": 3, "pace": 5}, {"concurrent": 3, "pace": 8}], ids=str)
@pytest.mark.parametrize("failing_commits", [0, 1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_after_every_step(kind: str, failing_commits: int, overlap: dict[str, int]) -> None:
    options = {"failing_commits": failing_commits, **overlap}
    for step in range(1, run(4, (), **options).steps + 1, every()):
        run(4, [(step, kind)], **options)


@pytest.mark.parametrize("kinds", list(itertools.product(KINDS, KINDS)), ids="+".join)
def test_two_crashes_after_any_two_steps(kinds: tuple[str, str]) -> None:
    every_pair(kinds, first_steps=3, second_steps=every(2))


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"failing_commits": 2}, {"concurrent": 2, "pace": 6}], ids=str)
@pytest.mark.parametrize("kinds", list(itertools.product(KINDS, KINDS)), ids="+".join)
def test_two_crashes_after_every_two_steps(kinds: tuple[str, str], options: dict[str, int]) -> None:
    every_pair(kinds, 1, 1, **options)


def every_pair(kinds: tuple[str, str], first_steps: int, second_steps: int, **options: Any) -> None:
    """The second crash comes anywhere behind the first, also while that is being recovered from."""
    first, second = kinds
    for step in range(1, run(2, (), **options).steps + 1, first_steps):
        last = run(2, [(step, first)], **options).steps
        for later in range(step + 1, last + 1, second_steps):
            run(2, [(step, first), (later, second)], **options)
