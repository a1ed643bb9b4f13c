"""The last hour of all jobs, bounded: in figures, which are what costs memory, and in jobs. Pure.

Each dispatcher has its own: after a failover it starts empty, and `since_ms` is the time of that. Jobs are recorded in
the order in which they come. One that does not fit evicts those that have ended, the oldest first; while there are
none, it is not recorded, and `job` returns None.

Metrics that are no part of reports are recorded from when a page first plots them, until no page has for an hour.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import JobId
from millstream.core.metrics.model import Number
from millstream.dispatcher.history.job_history import JobHistory, weight
from millstream.dispatcher.history.rings import COARSE, FACTOR, SLOT_S, Ring, axis

MOST_FIGURES = 10_000
"""Of all jobs: 16 MB with all that belongs to them, and 12 ms a round."""
MOST_JOBS = 100
MOST_WATCHED = 500
HOUR = FACTOR * COARSE
"""In slots."""

Place = tuple[JobId, str]
"""A vertex of a job."""


class _Watched(Struct):
    ring: Ring
    first: int
    requested_at: int


class History:
    """`began` is the slot in which it began, on any clock that never goes back."""

    def __init__(self, began: int, began_ms: int) -> None:
        self.since_ms = began_ms
        self._now = began
        self._now_ms = began_ms
        self._jobs: dict[JobId, JobHistory] = {}
        self._weights: dict[JobId, int] = {}
        self._watched: dict[Place, dict[str, _Watched]] = {}

    def tick(self, slot: int, now_ms: int, jobs: Iterable[JobDetails]) -> None:
        """Records a slot; `jobs` are all that the dispatcher knows."""
        if slot <= self._now:
            return
        self._now, self._now_ms = slot, now_ms
        known = {details.job_id: details for details in jobs}
        for gone in self._jobs.keys() - known.keys():
            self._drop(gone)
        for details in known.values():
            if details.state.is_terminal:
                self._end(details.job_id)
                continue
            if not self._fits(details):
                self._drop(details.job_id)
                continue
            self._weights[details.job_id] = weight(details)
            self._jobs.setdefault(details.job_id, JobHistory(slot)).record(slot, details, now_ms)
        self._forget_unwatched(known)

    def _end(self, job_id: JobId) -> None:
        history = self._jobs.get(job_id)
        if history is None:
            return
        history.ended = history.ended or self._now
        if self._now - history.ended >= HOUR:
            self._drop(job_id)

    def _fits(self, details: JobDetails) -> bool:
        """Whether there is room for a job; ended ones make some."""
        others = {job_id: taken for job_id, taken in self._weights.items() if job_id != details.job_id}
        wanted, total = weight(details), sum(others.values())
        ended = sorted((self._jobs[job_id].ended, job_id) for job_id in others if self._jobs[job_id].ended)
        while ended and (total + wanted > MOST_FIGURES or len(others) >= MOST_JOBS):
            oldest = ended.pop(0)[1]
            total -= others.pop(oldest)
            self._drop(oldest)
        return total + wanted <= MOST_FIGURES and len(others) < MOST_JOBS

    def _drop(self, job_id: JobId) -> None:
        self._jobs.pop(job_id, None)
        self._weights.pop(job_id, None)

    def job(self, job_id: JobId) -> JobHistory | None:
        """What is kept of a job; None: nothing."""
        return self._jobs.get(job_id)

    def axis(self, first: int, last: int = 0) -> list[tuple[int, int]]:
        """From a slot to another one, or to now."""
        return axis(first, last or self._now)

    def latest(self, slots: int) -> list[tuple[int, int]]:
        """The last slots, each of them: at most those of about five minutes."""
        return [(slot, 1) for slot in range(max(0, self._now - slots + 1), self._now + 1)]

    def times(self, along: Iterable[tuple[int, int]]) -> list[int]:
        """When the slots of an axis were, by the wall clock of the last tick."""
        return [self._now_ms - (self._now - slot) * SLOT_S * 1000 for slot, _ in along]

    def watch(self, place: Place, ids: Collection[str]) -> None:
        """Has the metrics of a vertex recorded from now on, as far as there is room for them."""
        of_place = self._watched.get(place, {})
        for name in ids:
            if name in of_place:
                of_place[name].requested_at = self._now
            elif sum(map(len, self._watched.values())) < MOST_WATCHED:
                of_place[name] = _Watched(Ring(), self._now, self._now)
                self._watched[place] = of_place

    @property
    def watched(self) -> list[Place]:
        """The vertices of which metrics are recorded that reports do not hold."""
        return list(self._watched)

    def put(self, place: Place, values: Mapping[str, Number]) -> None:
        """What was fetched of a watched vertex, for this slot."""
        for name, watched in self._watched.get(place, {}).items():
            value = values.get(name)
            watched.ring.put(self._now, None if value is None else float(value))

    def watched_values(self, place: Place, name: str) -> tuple[int, Ring] | None:
        """Since which slot a metric is recorded, and the ring."""
        watched = self._watched.get(place, {}).get(name)
        return None if watched is None else (watched.first, watched.ring)

    def _forget_unwatched(self, known: Mapping[JobId, JobDetails]) -> None:
        for place, of_place in list(self._watched.items()):
            details = known.get(place[0])
            is_over = details is None or details.state.is_terminal
            for name in [n for n, watched in of_place.items() if is_over or self._now - watched.requested_at >= HOUR]:
                del of_place[name]
            if not of_place:
                del self._watched[place]
