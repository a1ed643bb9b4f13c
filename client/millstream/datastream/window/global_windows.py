"""`GlobalWindows`: all records of a key are in one window, which only a trigger of one's own evaluates."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from millstream.common.serializer import TypeSerializer
from millstream.core.overriding import override
from millstream.core.records.type_variables import T
from millstream.datastream.window.assigner import WindowAssigner
from millstream.datastream.window.serializers import GlobalWindowSerializer
from millstream.datastream.window.triggers.never_trigger import NeverTrigger
from millstream.datastream.window.triggers.trigger import Trigger
from millstream.datastream.window.windows import GlobalWindow

if TYPE_CHECKING:
    from millstream.datastream.stream_execution_environment import StreamExecutionEnvironment

_THE_ONE = (GlobalWindow.get(),)


class GlobalWindows(WindowAssigner[T, GlobalWindow]):
    """Puts every record into the global window."""

    @staticmethod
    def create() -> GlobalWindows[Any]:
        """The assigner."""
        return GlobalWindows()

    @override
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        return _THE_ONE

    @override
    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[T, GlobalWindow]:
        return NeverTrigger()

    @override
    def get_window_serializer(self) -> TypeSerializer[GlobalWindow]:
        return GlobalWindowSerializer()

    @override
    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"
