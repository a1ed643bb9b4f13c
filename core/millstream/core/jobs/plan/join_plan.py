"""Specifications of joins without windows."""

from __future__ import annotations

from millstream.core.jobs.plan.plan import BatchInput, ConnectedSpec, FunctionSpec, TwoInputKeys


class IntervalJoinSpec(FunctionSpec, ConnectedSpec, frozen=True):
    """Joins each record of the first stream with those of the second that have its key and a close event time.

    That is, from `lower` to `upper` milliseconds after it, both included; negative numbers are before it.
    """

    kind = "interval_join"
    has_side_outputs = True
    keys: TwoInputKeys
    lower: int
    upper: int
    late_tags: tuple[str | None, str | None] = (None, None)  # side outputs for late records of each stream

    def batch_input(self, timed: bool) -> BatchInput:
        """Matches by event time, in any order of arrival."""
        return BatchInput.AS_IT_COMES
