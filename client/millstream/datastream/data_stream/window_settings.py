"""The settings of windows, which are made before their operation: of one stream, and of two that are joined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self

from millstream.common.time import plain_milliseconds
from millstream.core.errors import InvalidProgramError
from millstream.core.records.type_variables import T_co
from millstream.datastream.window import Evictor, MergingWindowAssigner, Trigger, WindowAssigner

if TYPE_CHECKING:
    from millstream.datastream.stream_execution_environment import StreamExecutionEnvironment


class WindowSettings(Generic[T_co]):
    """The windows, and when they fire."""

    def __init__(self, window_assigner: WindowAssigner[Any, Any], environment: StreamExecutionEnvironment) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            raise InvalidProgramError(f"window: expected a WindowAssigner, got {window_assigner!r}")
        self._assigner = window_assigner
        self._trigger: Trigger[Any, Any] = window_assigner.get_default_trigger(environment)
        self._evictor: Evictor[Any, Any] | None = None
        self._lateness = 0

    def trigger(self, trigger: Trigger[T_co, Any]) -> Self:
        """Sets the `trigger`, which decides when a window is evaluated, in place of the assigner's default.

        Raises `InvalidProgramError` for anything else, and for a trigger that cannot merge where windows do.

        For example:

            windows.trigger(CountTrigger.of(100)).sum("fare")
        """
        if not isinstance(trigger, Trigger):
            raise InvalidProgramError(f"trigger: expected a Trigger, got {trigger!r}")
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise InvalidProgramError(f"trigger: windows of {type(self._assigner).__name__} merge, and this one cannot")
        self._trigger = trigger
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Self:
        """Sets the `evictor`, which removes records before or after the function is called.

        All records are kept for it.

        Raises `InvalidProgramError` for anything else.

            windows.evictor(CountEvictor.of(10)).reduce(cheaper)
        """
        if not isinstance(evictor, Evictor):
            raise InvalidProgramError(f"evictor: expected an Evictor, got {evictor!r}")
        self._evictor = evictor
        return self

    def allowed_lateness(self, time_ms: Any) -> Self:
        """Sets how long a window of event time is kept after its end for late records: `time_ms`, or a duration.

        Raises `InvalidProgramError` for anything else, and for a negative duration.

        For example:

            windows.allowed_lateness(60_000).sum("fare")
        """
        lateness = plain_milliseconds(time_ms)
        if isinstance(lateness, bool) or not isinstance(lateness, int) or lateness < 0:
            raise InvalidProgramError(f"allowed_lateness: expected milliseconds or a duration, got {time_ms!r}")
        self._lateness = lateness
        return self
