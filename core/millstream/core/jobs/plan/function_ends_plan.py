"""Specifications of the two ends of a stream that are functions of the user's: `SourceFunction` and `SinkFunction`."""

from __future__ import annotations

from millstream.core.jobs.plan.plan import FunctionSpec, KeySelector
from millstream.core.records.types import PICKLED, TypeInformation


class SourceFunctionSpec(FunctionSpec, frozen=True):
    """A SourceFunction: it runs in each subtask, on a thread of its own. It has no splits, so nothing enumerates."""

    inputs = 0
    prefix = "Source: "
    kind = "source_function"


class SinkFunctionSpec(FunctionSpec, frozen=True):
    """A SinkFunction; behind `key_by` it has state by key."""

    prefix = "Sink: "
    is_sink = True
    kind = "sink_function"
    key_selector: KeySelector | None = None
    key_type: TypeInformation = PICKLED

    def keyed_by(self) -> tuple[KeySelector, ...]:
        """Its stream's, if that has keys."""
        return () if self.key_selector is None else (self.key_selector,)
