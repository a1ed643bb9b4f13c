"""Specifications of asynchronous functions."""

from __future__ import annotations

from typing import Any

from millstream.core.jobs.plan.plan import FunctionSpec, OperatorSpec
from millstream.core.jobs.state_kinds import OPERATOR, StateKind


class AsyncSpec(FunctionSpec, frozen=True):
    """An AsyncFunction, which is called concurrently for several records."""

    kind = "async"
    timeout: float | None  # seconds for a record, with its retries; None: no timeout
    capacity: int  # the maximum number of concurrent records
    retry_strategy: Any  # millstream.datastream.functions.AsyncRetryStrategy
    ordered: bool  # whether results are emitted in the order of their records

    def held_state(self) -> frozenset[StateKind]:
        """The records whose calls are in progress."""
        return OperatorSpec.held_state(self) | OPERATOR

    def user_code(self) -> tuple[Any, ...]:
        """The function, and its retry strategy."""
        return (self.function, self.retry_strategy)
