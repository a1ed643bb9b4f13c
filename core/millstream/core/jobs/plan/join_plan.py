"""What the client hands to the tasks of joins that are no windows."""

from __future__ import annotations

from millstream.core.jobs.plan.plan import BatchInput, ConnectedSpec, FunctionSpec, TwoInputKeys


class IntervalJoinSpec(FunctionSpec, ConnectedSpec, frozen=True):
    """Each record of the first stream with those of the second that have its key and come close to it in event time.

    That is, from `lower` to `upper` milliseconds after it, both included; negative numbers are before it.
    """

    kind = "interval_join"
    has_side_outputs = True
    keys: TwoInputKeys
    lower: int
    upper: int
    late_tags: tuple[str | None, str | None] = (None, None)  # side outputs for what comes too late, of either stream

    def batch_input(self, timed: bool) -> BatchInput:
        """It looks for what is near in time, in whatever order that came."""
        return BatchInput.AS_IT_COMES
