"""Windows of a number of records of a key, whatever their time. The count is state of the key."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from millstream.common.serializer import TypeSerializer
from millstream.common.typeinfo import Types
from millstream.core.overriding import override
from millstream.core.records.type_variables import T
from millstream.datastream.state import ValueStateDescriptor
from millstream.datastream.window.assigner import WindowAssigner
from millstream.datastream.window.lengths import positive_count
from millstream.datastream.window.serializers import CountWindowSerializer
from millstream.datastream.window.triggers.count_trigger import CountTrigger
from millstream.datastream.window.triggers.trigger import Trigger, TriggerResult
from millstream.datastream.window.windows import CountWindow

if TYPE_CHECKING:
    from millstream.datastream.stream_execution_environment import StreamExecutionEnvironment



class FullWindowTrigger(CountTrigger[T, CountWindow]):
    """Fires when a window is full, and drops its records: no more can come, and no time will ever end it."""

    def on_element(self, element: T, timestamp: int, window: CountWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fires and purges with the last record."""
        result = super().on_element(element, timestamp, window, ctx)
        return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result


class CountTumblingWindowAssigner(WindowAssigner[T, CountWindow]):
    """Each record is in one window: the first `window_size` of its key, the next `window_size`, and so on."""

    def __init__(self, window_size: int) -> None:
        self.window_size = positive_count("CountTumblingWindowAssigner", "window_size", window_size)
        self._count = ValueStateDescriptor("tumble-count-assigner", Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner[Any]:
        """Returns windows of `window_size` records."""
        return CountTumblingWindowAssigner(window_size)

    @override
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        return [CountWindow(_counted(context, self._count) // self.window_size)]

    @override
    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[T, CountWindow]:
        return FullWindowTrigger(self.window_size)

    @override
    def get_window_serializer(self) -> TypeSerializer[CountWindow]:
        return CountWindowSerializer()

    @override
    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self.window_size})"


class CountSlidingWindowAssigner(WindowAssigner[T, CountWindow]):
    """A window of `window_size` records begins with the first record of a key and with every `window_slide`-th."""

    def __init__(self, window_size: int, window_slide: int) -> None:
        self.window_size = positive_count("CountSlidingWindowAssigner", "window_size", window_size)
        self.window_slide = positive_count("CountSlidingWindowAssigner", "window_slide", window_slide)
        self._count = ValueStateDescriptor("slide-count-assigner", Types.LONG())

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner[Any]:
        """Returns windows of `window_size` records, a new one every `window_slide` records."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    @override
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        count = _counted(context, self._count)
        latest = count // self.window_slide
        full = max(-1, (count - self.window_size) // self.window_slide)  # the latest that the record comes too late for
        return [CountWindow(number) for number in range(latest, full, -1)]

    @override
    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[T, CountWindow]:
        return FullWindowTrigger(self.window_size)

    @override
    def get_window_serializer(self) -> TypeSerializer[CountWindow]:
        return CountWindowSerializer()

    @override
    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self.window_size}, {self.window_slide})"


def _counted(context: WindowAssigner.WindowAssignerContext, descriptor: ValueStateDescriptor) -> int:
    """How many records the key had before this one, which is counted."""
    state = context.get_runtime_context().get_state(descriptor)
    count = int(state.value() or 0)
    state.update(count + 1)
    return count
