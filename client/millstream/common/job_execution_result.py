"""`JobExecutionResult`: the result of a finished job, with PyFlink's name."""

from __future__ import annotations

from typing import Any

from millstream.common.job_id import JobID


class JobExecutionResult:
    """The result of a finished job: its id, its runtime and its accumulators."""

    def __init__(self, job_id: str, net_runtime_ms: int, accumulators: dict[str, Any]) -> None:
        self._job_id = JobID(job_id)
        self._net_runtime_ms = net_runtime_ms
        self._accumulators = accumulators

    def get_job_id(self) -> JobID:
        """Returns the id of the job."""
        return self._job_id

    def get_net_runtime(self) -> int:
        """Returns the runtime of the job, from its start to its end, in milliseconds."""
        return self._net_runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Returns the merged value of the accumulator `accumulator_name`; None if the job has no such accumulator."""
        return self._accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Returns the merged values of all accumulators by name."""
        return dict(self._accumulators)

    def __repr__(self) -> str:
        return f"JobExecutionResult({self._job_id}, {self._net_runtime_ms} ms)"
