"""The event time of a task or a source, derived from that of its channels or splits."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from millstream.core.records.batches import MIN_TIMESTAMP, StreamSignal, Watermark, WatermarkStatus
from millstream.taskmanager.worker.tasks.watermark_valve import WatermarkValve

IDLE, ACTIVE = WatermarkStatus(True), WatermarkStatus(False)


def test_the_slowest_channel_determines_the_watermark() -> None:
    valve = WatermarkValve(["a", "b"])
    assert valve.watermark("a", 10) == []
    assert valve.watermark("b", 7) == [Watermark(7)]
    assert valve.watermark("b", 20) == [Watermark(10)]
    assert valve.watermark("b", 15) == []


def test_the_lowest_watermark_of_some_channels() -> None:
    valve = WatermarkValve(["a", "b", "c"])
    for channel, timestamp in ("a", 10), ("b", 7), ("c", 20):
        valve.watermark(channel, timestamp)
    assert valve.lowest(["a", "c"]) == 10
    assert valve.lowest(["a", "b"]) == 7
    valve.status("a", True)
    assert valve.lowest(["a", "c"]) == 20
    assert valve.lowest(["a"]) == 7, "the clock"
    valve.ended("c")
    assert valve.lowest(["c", "b"]) == 7


def test_an_idle_channel_holds_nothing_back() -> None:
    valve = WatermarkValve(["a", "b"])
    valve.watermark("a", 10)
    assert valve.status("b", True) == [Watermark(10)]
    assert valve.status("b", True) == []
    assert valve.watermark("a", 11) == [Watermark(11)]


def test_when_all_are_idle_the_highest_watermark_is_emitted_first() -> None:
    valve = WatermarkValve(["a", "b"])
    valve.watermark("a", 10)
    valve.watermark("b", 4)
    assert valve.status("a", True) == []
    assert valve.status("b", True) == [Watermark(10), IDLE]
    assert valve.status("a", False) == [ACTIVE]


def test_a_task_continues_without_a_channel_that_becomes_active_behind() -> None:
    valve = WatermarkValve(["a", "b"])
    valve.status("b", True)
    valve.watermark("a", 10)
    assert valve.status("b", False) == []
    assert valve.watermark("b", 5) == []
    assert valve.watermark("a", 12) == [Watermark(12)]
    assert valve.watermark("b", 12) == []
    assert valve.watermark("a", 20) == []  # it counts again
    assert valve.watermark("b", 15) == [Watermark(15)]


def test_a_source_waits_for_a_new_split() -> None:
    valve = WatermarkValve(waits=True)
    valve.begun("a")
    assert valve.watermark("a", 10) == [Watermark(10)]
    assert valve.begun("b") == []
    assert valve.watermark("a", 20) == []
    assert valve.watermark("b", 5) == []
    assert valve.watermark("b", 15) == [Watermark(15)]
    assert valve.ended("b") == [Watermark(20)]
    assert valve.ended("a") == []


def test_a_channel_that_becomes_active_at_the_clock_counts_at_once() -> None:
    valve = WatermarkValve(["a", "b"])
    valve.watermark("a", 10)
    valve.watermark("b", 10)
    valve.status("b", True)
    assert valve.status("b", False) == []
    assert valve.watermark("a", 12) == []
    assert valve.watermark("b", 11) == [Watermark(11)]


def test_a_source_waits_for_a_split_that_becomes_active_behind() -> None:
    valve = WatermarkValve(["a", "b"], waits=True)
    valve.status("b", True)
    valve.watermark("a", 10)
    valve.status("b", False)
    assert valve.watermark("a", 12) == []
    assert valve.watermark("b", 11) == [Watermark(11)]


def test_a_task_waits_for_a_new_channel_only_before_its_clock_has_moved() -> None:
    valve = WatermarkValve(["a"])
    valve.begun("b")
    assert valve.watermark("a", 10) == []
    assert valve.watermark("b", 5) == [Watermark(5)]
    valve.begun("c")
    assert valve.watermark("b", 8) == [Watermark(8)]
    assert valve.watermark("c", 7) == []
    assert valve.watermark("c", 8) == []
    assert valve.watermark("b", 9) == []  # from now on c counts
    assert valve.watermark("c", 20) == [Watermark(9)]


def test_without_channels_it_becomes_idle_after_the_timeout() -> None:
    valve = WatermarkValve(["a"], waits=True)
    assert valve.emptied() == []
    assert not valve.is_idle
    valve.ended("a")
    assert valve.emptied() == [IDLE]
    assert valve.is_idle
    assert valve.emptied() == []
    assert valve.begun("b") == [ACTIVE]
    assert not valve.is_idle


def test_it_reports_the_slowest_active_channels_and_since_when() -> None:
    valve = WatermarkValve("abc", at=1)
    valve.watermark("a", 10, at=2)
    valve.watermark("a", 10, at=3)
    valve.watermark("b", 7, at=4)
    valve.status("c", True, at=5)
    event_time = valve.progress(lambda channel, stream: replace(stream, name=str(channel)))
    assert [(s.name, s.watermark, s.moved_at) for s in event_time.slowest] == [("b", 7, 4), ("a", 10, 2)]
    assert (event_time.watermark, event_time.highest, event_time.streams, event_time.idle_streams) == (7, 10, 3, 1)


def test_when_all_are_idle_it_reports_all_of_them() -> None:
    valve = WatermarkValve("ab")
    valve.watermark("a", 3)
    valve.status("a", True, at=6)
    valve.status("b", True, at=7)
    event_time = valve.progress(lambda channel, stream: replace(stream, name=str(channel)))
    assert [(s.name, s.idle, s.moved_at) for s in event_time.slowest] == [("b", True, 7), ("a", True, 6)]
    assert event_time.highest == MIN_TIMESTAMP


class Valve(RuleBasedStateMachine):
    """Compared with a model that examines all channels each time."""

    @initialize(waits=st.booleans())
    def start(self, waits: bool) -> None:
        self.waits = waits
        self.channels = dict.fromkeys("abc", (MIN_TIMESTAMP, False, True))
        self.valve = WatermarkValve(self.channels, waits)
        self.clock = MIN_TIMESTAMP
        self.is_idle = False

    def expect(self, signals: list[StreamSignal]) -> None:
        for signal in signals:
            if isinstance(signal, Watermark):
                assert signal.timestamp > self.clock, "time goes forward"
                self.clock = signal.timestamp
            else:
                assert isinstance(signal, WatermarkStatus)
                assert signal.is_idle != self.is_idle, "only changes are emitted"
                self.is_idle = signal.is_idle
        if signals and signals[-1] == IDLE:
            assert len(signals) < 2 or isinstance(signals[0], Watermark)

    @rule(name=st.sampled_from("abc"), timestamp=st.integers(-5, 30))
    def watermark(self, name: str, timestamp: int) -> None:
        known, is_idle, counts = self.channels[name]
        if not is_idle and timestamp > known:
            self.channels[name] = (timestamp, False, counts or timestamp >= self.clock)
        self.expect(self.valve.watermark(name, timestamp))

    @rule(name=st.sampled_from("abc"), is_idle=st.booleans())
    def status(self, name: str, is_idle: bool) -> None:
        known, was_idle, counts = self.channels[name]
        if is_idle != was_idle:
            counts = not is_idle and (self.waits or known >= self.clock)
            self.channels[name] = (known, is_idle, counts)
        self.expect(self.valve.status(name, is_idle))

    @invariant()
    def the_clock_is_that_of_the_slowest_that_counts(self) -> None:
        counting = [known for known, _, counts in self.channels.values() if counts]
        if counting:
            assert self.clock >= min(counting)
        assert self.is_idle == all(is_idle for _, is_idle, _ in self.channels.values())


TestValve = Valve.TestCase
