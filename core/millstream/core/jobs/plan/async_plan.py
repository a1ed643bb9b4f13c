"""What the client hands to the tasks of asynchronous functions."""

from __future__ import annotations

from typing import Any

from millstream.core.jobs.plan.plan import FunctionSpec, OperatorSpec
from millstream.core.jobs.state_kinds import OPERATOR, StateKind


class AsyncSpec(FunctionSpec, frozen=True):
    """An AsyncFunction, whose calls for several records are under way at the same time."""

    kind = "async"
    timeout: float | None  # seconds for a record, with its retries; None: it may take as long as it likes
    capacity: int  # records under way at the same time
    retry_strategy: Any  # millstream.datastream.functions.AsyncRetryStrategy
    ordered: bool  # whether results leave in the order of their records

    def held_state(self) -> frozenset[StateKind]:
        """The records that are under way."""
        return OperatorSpec.held_state(self) | OPERATOR

    def user_code(self) -> tuple[Any, ...]:
        """The function, and its retry strategy."""
        return (self.function, self.retry_strategy)
