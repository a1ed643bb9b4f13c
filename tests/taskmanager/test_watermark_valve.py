"""The event time of a task or a source, made of that of its channels or splits."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from millstream.core.records.batches import MIN_TIMESTAMP, StreamSignal, Watermark, WatermarkStatus
from millstream.taskmanager.worker.tasks.watermark_valve import WatermarkValve

IDLE, ACTIVE = WatermarkStatus(True), WatermarkStatus(False)


def test_the_slowest_channel_says_what_time_it_is() -> None:
    valve = WatermarkValve(["a", "b"])
    assert valve.watermark("a", 10) == []
    assert valve.watermark("b", 7) == [Watermark(7)]
    assert valve.watermark("b", 20) == [Watermark(10)]
    assert valve.watermark("b", 15) == []


def test_an_idle_channel_holds_nobody_back() -> None:
    valve = WatermarkValve(["a", "b"])
    valve.watermark("a", 10)
    assert valve.status("b", True) == [Watermark(10)]
    assert valve.status("b", True) == []
    assert valve.watermark("a", 11) == [Watermark(11)]


def test_when_all_are_idle_what_was_held_back_is_let_go_first() -> None:
    valve = WatermarkValve(["a", "b"])
    valve.watermark("a", 10)
    valve.watermark("b", 4)
    assert valve.status("a", True) == []
    assert valve.status("b", True) == [Watermark(10), IDLE]
    assert valve.status("a", False) == [ACTIVE]


def test_a_task_goes_on_without_a_channel_that_wakes_up_behind() -> None:
    valve = WatermarkValve(["a", "b"])
    valve.status("b", True)
    valve.watermark("a", 10)
    assert valve.status("b", False) == []
    assert valve.watermark("b", 5) == []
    assert valve.watermark("a", 12) == [Watermark(12)]
    assert valve.watermark("b", 12) == []
    assert valve.watermark("a", 20) == []  # it counts again
    assert valve.watermark("b", 15) == [Watermark(15)]


def test_a_source_waits_for_a_split_that_is_new() -> None:
    valve = WatermarkValve(waits=True)
    valve.begun("a")
    assert valve.watermark("a", 10) == [Watermark(10)]
    assert valve.begun("b") == []
    assert valve.watermark("a", 20) == []
    assert valve.watermark("b", 5) == []
    assert valve.watermark("b", 15) == [Watermark(15)]
    assert valve.ended("b") == [Watermark(20)]
    assert valve.ended("a") == []


class Valve(RuleBasedStateMachine):
    """Against a model that looks at all channels each time."""

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
                assert signal.is_idle != self.is_idle, "only news is told"
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
