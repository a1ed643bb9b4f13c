"""What `map_batches` takes: a callable, a rich function, or any object with a method `map_batches`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from millstream.core.errors import InvalidProgramError
from millstream.datastream.adapters.signatures import checked_callable, instance_needed
from millstream.datastream.functions import Function, MapBatchesFunction, RuntimeContext


class ObjectMapBatchesFunction(MapBatchesFunction):
    """Calls an object that derives from no class of ours, and its `open` and `close` if it has them."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once before the first batch."""
        if (opened := getattr(self.given, "open", None)) is not None:
            opened(runtime_context)

    def close(self) -> None:
        """Called once after the last batch, and when the task fails or is cancelled."""
        if (closed := getattr(self.given, "close", None)) is not None:
            closed()

    def map_batches(self, batch: Any) -> Any:
        """Returns what the object's method returns."""
        return self.given.map_batches(batch)


def map_batches_function_of(func: Any) -> tuple[Any, Callable[..., Any]]:
    """The function for the operator, and the callable that has the user's annotations."""
    if isinstance(func, type) and callable(getattr(func, "map_batches", None)):
        raise instance_needed("map_batches", func)
    if isinstance(func, Function | type) or not callable(getattr(func, "map_batches", None)):
        return func, checked_callable("map_batches", func, "map_batches", 1)
    target = checked_callable("map_batches", func.map_batches, "__call__", 1)
    for method, arguments, wanted in (("open", (None,), "open(runtime_context)"), ("close", (), "close()")):
        bound = getattr(func, method, None)
        if bound is None:
            continue
        try:
            inspect.signature(bound).bind(*arguments)
        except (TypeError, ValueError):
            raise InvalidProgramError(
                f"map_batches: '{type(func).__qualname__}.{method}' cannot be called as {wanted}, as it will be"
            ) from None
    return ObjectMapBatchesFunction(func), target
