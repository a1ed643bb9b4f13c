"""Which of the jobs that miss slots get them: all that one misses, or none. Pure.

The rule, job by job in the order of their turn:

- A job that misses no more slots than are free gets them now.
- One that has all that it misses with slots that are certain to come (a resource provider may still start them, or
  they rest after a refusal) has the free ones reserved, so that those behind it do not take them meanwhile.
- One that also runs with fewer, if there are enough for that, gets what is free, and what can be started.
- Any other job is passed over: it holds and reserves nothing, and those behind it get their turn at the same slots. It
  is considered again, first, whenever a slot becomes free. So a large job never blocks small ones; while small ones
  always take what becomes free, it waits, until its own slot.request.timeout.

A job may still hold a part of what it needs: it lost a task manager, or was refused a slot. `claimable` names the jobs
that should give up what they hold because another job could run with it. A job that had all its slots once keeps them
against jobs behind it: it restarts faster in them, and a new job does not push out an old one. It yields to jobs
before it, so that of several that lost slots at once the eldest runs. One that never had all yields to any.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from millstream.core.jobs.ids import JobId


class Waiting(Struct, frozen=True):
    """A job that misses slots. `overdue`: it has held a part of them for too long.

    `least` are the slots without which it does not run with fewer either; None: it runs with all or none.
    """

    job_id: JobId
    missing: int
    held: int = 0
    was_complete: bool = False
    overdue: bool = False
    least: int | None = None

    @property
    def runs(self) -> bool:
        """Whether it needs no more than it holds."""
        return self.least is not None and self.held >= self.least


class Shares(Struct, frozen=True):
    """Who gets slots now, who has slots reserved, how many are left, and how many have to be started for that."""

    granted: tuple[JobId, ...]
    reserved: tuple[JobId, ...]
    left: int
    to_start: int


def divide(waiting: Sequence[Waiting], free: int, resting: int = 0, startable: int = 0) -> Shares:
    """Jobs are given in the order of their turn."""
    granted: list[JobId] = []
    reserved: list[JobId] = []
    to_start = 0
    for job in waiting:
        if job.missing <= free:
            free -= job.missing
            granted.append(job.job_id)
        elif job.least is not None and free + resting + startable + job.held >= job.least:
            beyond = job.missing - free
            free, rested = 0, min(beyond, resting)
            started = min(beyond - rested, startable)
            resting, startable, to_start = resting - rested, startable - started, to_start + started
            granted.append(job.job_id)
        elif job.missing <= free + resting + startable:
            beyond = job.missing - free
            rested = min(beyond, resting)
            free, resting = 0, resting - rested
            startable -= beyond - rested
            to_start += beyond - rested
            reserved.append(job.job_id)
    return Shares(tuple(granted), tuple(reserved), free, to_start)


def claimable(waiting: Sequence[Waiting], left: int) -> tuple[JobId, ...]:
    """The jobs that should give up their slots for the first one that could run with them; `left` are free already."""
    for turn, job in enumerate(waiting):
        pool, giving = left, list[JobId]()
        for other_turn in range(len(waiting) - 1, -1, -1):
            other = waiting[other_turn]
            yields = other_turn > turn or not other.was_complete
            if other_turn == turn or not other.held or other.runs or not other.overdue or not yields:
                continue
            pool += other.held
            giving.append(other.job_id)
            if job.missing <= pool:
                return tuple(giving)
    return ()
