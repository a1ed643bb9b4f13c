"""What `execute` answers when the job was only submitted."""

from __future__ import annotations

from typing import Any, NoReturn

from millstream.core.errors import InvalidProgramError
from millstream.datastream.execution import JobExecutionResult


class DetachedJobExecutionResult(JobExecutionResult):
    """Knows the job's id and nothing of its end."""

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id, 0, {})

    def _unknown(self) -> NoReturn:
        raise InvalidProgramError(f"job {self.get_job_id()} was submitted detached: its result is not waited for")

    def get_net_runtime(self) -> int:
        """Not known."""
        self._unknown()

    def get_accumulator_result(self, name: str) -> Any:
        """Not known."""
        self._unknown()

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Not known."""
        self._unknown()

    def __repr__(self) -> str:
        return f"DetachedJobExecutionResult({self.get_job_id()})"
