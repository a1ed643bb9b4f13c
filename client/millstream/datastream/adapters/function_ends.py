"""Plain callables where a source function, `(ctx)`, or a sink function, `(value)`, is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.datastream.adapters.signatures import checked_callable, refuse_generator
from millstream.datastream.connectors.base import Source
from millstream.datastream.functions import SinkContext, SinkFunction, SourceContext, SourceFunction


class CallableSourceFunction(SourceFunction[Any]):
    """Calls the user's function once."""

    def __init__(self, function: Callable[[SourceContext[Any]], None]) -> None:
        super().__init__()
        self.function = function

    @override
    def run(self, ctx: SourceContext[Any]) -> None:
        self.function(ctx)


class CallableSinkFunction(SinkFunction[Any]):
    """Calls the user's function for each record."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def invoke(self, value: Any, context: SinkContext) -> None:
        """With the record alone."""
        self.function(value)


def source_function_of(source_func: Any) -> SourceFunction[Any]:
    """As given to `add_source`."""
    if isinstance(source_func, Source):
        raise InvalidProgramError(
            f"add_source: {type(source_func).__qualname__} is a Source: use from_source(source, strategy, name)"
        )
    target = checked_callable("add_source", source_func, "run", 1)
    refuse_generator("add_source", target, "a source function emits with ctx.collect(record)")
    return source_func if isinstance(source_func, SourceFunction) else CallableSourceFunction(source_func)


def sink_function_of(sink_func: Any) -> SinkFunction[Any]:
    """As given to `add_sink`."""
    rich = isinstance(sink_func, SinkFunction)
    target = checked_callable("add_sink", sink_func, "invoke", 2 if rich else 1)
    refuse_generator("add_sink", target, "a sink function emits nothing")
    return sink_func if isinstance(sink_func, SinkFunction) else CallableSinkFunction(sink_func)
