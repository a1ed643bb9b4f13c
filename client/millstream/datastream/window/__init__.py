"""Windows: who assigns records to them, when they are evaluated, and what is taken out before; PyFlink's names."""

from __future__ import annotations

from millstream.datastream.window.assigner import MergingWindowAssigner, MissingTimestampError, WindowAssigner
from millstream.datastream.window.count_windows import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from millstream.datastream.window.dynamic_sessions import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from millstream.datastream.window.evictor import Evictor, TimestampedValue
from millstream.datastream.window.evictors import CountEvictor, DeltaEvictor, DeltaFunction, TimeEvictor
from millstream.datastream.window.global_windows import GlobalWindows
from millstream.datastream.window.serializers import CountWindowSerializer, GlobalWindowSerializer, TimeWindowSerializer
from millstream.datastream.window.sessions import EventTimeSessionWindows, ProcessingTimeSessionWindows
from millstream.datastream.window.sliding import SlidingEventTimeWindows, SlidingProcessingTimeWindows
from millstream.datastream.window.triggers.continuous_triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
)
from millstream.datastream.window.triggers.count_trigger import CountTrigger
from millstream.datastream.window.triggers.never_trigger import NeverTrigger
from millstream.datastream.window.triggers.purging_trigger import PurgingTrigger
from millstream.datastream.window.triggers.time_triggers import EventTimeTrigger, ProcessingTimeTrigger
from millstream.datastream.window.triggers.trigger import Trigger, TriggerResult
from millstream.datastream.window.tumbling import TumblingEventTimeWindows, TumblingProcessingTimeWindows
from millstream.datastream.window.windows import CountWindow, GlobalWindow, TimeWindow, Window

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "DeltaEvictor",
    "DeltaFunction",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "MissingTimestampError",
    "NeverTrigger",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeEvictor",
    "TimeWindow",
    "TimeWindowSerializer",
    "TimestampedValue",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
]
