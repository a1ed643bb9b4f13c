"""The metrics of the whole cluster, as they were fetched last. Pure.

A response of a process replaces the one before, so no metric stays that it measures no more. A process that is gone is
forgotten at once, one that does not respond after a while. Figures get their ids at the first request for them, and
keep them for later ones: most are never requested.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from millstream.core.metrics.model import MetricGroup, Number, Scope
from millstream.core.metrics.naming import values_of

Values = dict[str, Number]


class _Response(Struct, frozen=True):
    at: float
    groups: tuple[MetricGroup, ...]
    tasks: dict[tuple[str, str], list[MetricGroup]]
    """Of tasks and operators, by the ids of their job and vertex."""


class MetricStore:
    """Of one dispatcher. `kept`: for how many seconds the last response of a silent process counts."""

    def __init__(self, kept: float) -> None:
        self._kept = kept
        self._responses: dict[str, _Response] = {}
        self._of_vertices: dict[tuple[str, str], dict[int, Values]] = {}

    def put(self, address: str, groups: Collection[MetricGroup], now: float) -> None:
        """What the process at this address measures."""
        tasks: dict[tuple[str, str], list[MetricGroup]] = {}
        rest: list[MetricGroup] = []
        for group in groups:
            if group.scope is Scope.TASK or group.scope is Scope.OPERATOR:
                place = (group.variables.get("job_id", ""), group.variables.get("task_id", ""))
                tasks.setdefault(place, []).append(group)
            else:
                rest.append(group)
        self._responses[address] = _Response(now, tuple(rest), tasks)
        self._of_vertices.clear()

    def keep(self, addresses: Collection[str], now: float) -> None:
        """Only these processes are there."""
        self._responses = {
            address: response
            for address, response in self._responses.items()
            if address in addresses and now - response.at <= self._kept
        }
        self._of_vertices.clear()

    def job(self, job_id: str) -> Values:
        """What is measured of a job as a whole."""
        return self.jobs().get(job_id, {})

    def jobs(self) -> dict[str, Values]:
        """By job, with what its tasks measure of it as a whole: latencies."""
        found = self._by_variable(Scope.JOB, "job_id")
        for job_id, values in self._by_variable(Scope.TASK_MANAGER_JOB, "job_id").items():
            if job_id in found:
                found[job_id] |= values
        return found

    def task_managers(self) -> dict[str, Values]:
        """By task manager, with its slots."""
        return self._by_variable(Scope.TASK_MANAGER, "tm_id")

    def job_manager(self, services: Mapping[str, Values]) -> Values:
        """Of the job manager as Flink has it: what the other services know (`services`), and its own process."""
        found: Values = {}
        for known in (*services.values(), *self._by_variable(Scope.JOB_MANAGER, "service").values()):
            found |= known
        return found

    def vertex(self, job_id: str, vertex_id: str) -> Mapping[int, Values]:
        """By subtask: of its latest attempt, which is the only one that counts where several are known."""
        place = (job_id, vertex_id)
        if place not in self._of_vertices:
            self._of_vertices[place] = self._of_subtasks(job_id, vertex_id)
        return self._of_vertices[place]

    def _of_subtasks(self, job_id: str, vertex_id: str) -> dict[int, Values]:
        latest: dict[int, tuple[int, Values]] = {}
        for group in self.vertex_groups(job_id, vertex_id):
            subtask, attempt = number_of(group, "subtask_index"), number_of(group, "task_attempt_num")
            known = latest.get(subtask)
            if known is None or known[0] < attempt:
                known = latest[subtask] = (attempt, {})
            if known[0] == attempt:
                known[1].update(values_of(group))
        return {subtask: values for subtask, (_, values) in sorted(latest.items())}

    def coordinators(self, job_id: str, vertex_id: str) -> Values:
        """Of the operators of a vertex: what their coordinators measure on the job manager."""
        found: Values = {}
        for group in self._of(Scope.JOB_MANAGER_OPERATOR):
            if (group.variables.get("job_id"), group.variables.get("task_id")) == (job_id, vertex_id):
                found.update(values_of(group))
        return found

    def vertex_groups(self, job_id: str, vertex_id: str) -> list[MetricGroup]:
        """Of all subtasks and their operators."""
        place = (job_id, vertex_id)
        return [group for response in self._responses.values() for group in response.tasks.get(place, ())]

    def _by_variable(self, scope: Scope, variable: str) -> dict[str, Values]:
        found: dict[str, Values] = {}
        for group in self._of(scope):
            found.setdefault(group.variables.get(variable, ""), {}).update(values_of(group))
        return found

    def _of(self, scope: Scope) -> Iterator[MetricGroup]:
        return (group for response in self._responses.values() for group in response.groups if group.scope is scope)


def number_of(group: MetricGroup, variable: str) -> int:
    """A variable that is a number, such as a subtask's index; 0 when it is none."""
    text = group.variables.get(variable, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
