"""Specifications of sources and sinks that are user functions: `SourceFunction` and `SinkFunction`."""

from __future__ import annotations

from millstream.core.jobs.plan.plan import FunctionSpec, KeySelector
from millstream.core.records.types import PICKLED, TypeInformation


class SourceFunctionSpec(FunctionSpec, frozen=True):
    """A SourceFunction: it runs in each subtask, on a separate thread. It has no splits and no enumerator."""

    inputs = 0
    prefix = "Source: "
    kind = "source_function"


class SinkFunctionSpec(FunctionSpec, frozen=True):
    """A SinkFunction; after `key_by` it has keyed state."""

    prefix = "Sink: "
    is_sink = True
    kind = "sink_function"
    key_selector: KeySelector | None = None
    key_type: TypeInformation = PICKLED

    def keyed_by(self) -> tuple[KeySelector, ...]:
        """Its stream's, if that has keys."""
        return () if self.key_selector is None else (self.key_selector,)
