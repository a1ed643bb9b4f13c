"""Whether a job runs as a batch, by the program's setting or by its sources, and which settings apply then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, assert_never

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.plan import SourceSpec
from millstream.datastream.connectors.base import Boundedness
from millstream.datastream.execution_mode import RuntimeExecutionMode
from millstream.datastream.graph.transformations import OperatorTransformation

if TYPE_CHECKING:
    from millstream.datastream.graph.stream_graph import StreamNode


def is_batch(operators: Iterable[OperatorTransformation], mode: RuntimeExecutionMode) -> bool:
    """Whether these operators are. Refuses a batch of which a source has no end."""
    if mode is RuntimeExecutionMode.STREAMING:
        return False
    endless = [operator.full_name for operator in operators if operator.spec.inputs == 0 and not _is_bounded(operator)]
    match mode:
        case RuntimeExecutionMode.AUTOMATIC:
            return not endless
        case RuntimeExecutionMode.BATCH:
            if endless:
                raise InvalidProgramError(
                    f"execution.runtime-mode is BATCH, and '{endless[0]}' is not bounded: use a bounded source, or the "
                    "mode STREAMING or AUTOMATIC"
                )
            return True
        case _:
            assert_never(mode)


def _is_bounded(operator: OperatorTransformation) -> bool:
    """A source function does not declare it, so it is unknown."""
    spec = operator.spec
    return isinstance(spec, SourceSpec) and spec.source.get_boundedness() is Boundedness.BOUNDED


def has_event_time(node: StreamNode) -> bool:
    """Whether records come to an operator with timestamps."""
    seen: set[int] = set()
    pending = [edge.source for edge in node.inputs]
    while pending:
        producer = pending.pop()
        if producer.operator.spec.makes_event_time:
            return True
        if producer.index not in seen:
            seen.add(producer.index)
            pending += [edge.source for edge in producer.inputs]
    return False
