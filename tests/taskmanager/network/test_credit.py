"""Credit: the receiver's arithmetic case by case, the sender's, and both over a lossless ordered link."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from thoroughness import cases

from millstream.taskmanager.worker.network.credit import CreditReceiver, CreditSender, CreditViolationError


def started(*channels: int, exclusive: int, floating: int) -> CreditReceiver:
    receiver = CreditReceiver(channels, exclusive, floating)
    receiver.start()
    return receiver


def fill(receiver: CreditReceiver, channel: int, buffers: int) -> None:
    for left in reversed(range(buffers)):
        receiver.arrived(channel, left)


def test_every_channel_starts_with_its_exclusive_buffers() -> None:
    receiver = CreditReceiver([7, 9], exclusive=2, floating=4)
    assert sorted(receiver.start()) == [(7, 2), (9, 2)]
    assert receiver.start() == []
    assert receiver.floating_in_use == 0


def test_a_buffer_without_backlog_takes_no_floating_credit() -> None:
    receiver = started(1, exclusive=2, floating=4)
    assert receiver.arrived(1, backlog=0) == []
    assert receiver.floating_in_use == 0
    assert receiver.consumed(1) == [(1, 1)]


def test_backlog_is_served_from_the_pool_up_to_its_size() -> None:
    receiver = started(1, exclusive=2, floating=4)
    assert receiver.arrived(1, backlog=10) == [(1, 4)]
    assert receiver.floating_in_use == 4
    assert receiver.announced(1, 50) == []


def test_a_backlog_below_the_credit_in_flight_gets_nothing_more() -> None:
    receiver = started(1, exclusive=3, floating=4)
    assert receiver.arrived(1, backlog=2) == []
    assert receiver.announced(1, 3) == [(1, 1)]


def test_a_freed_floating_buffer_is_granted_to_a_waiting_channel() -> None:
    receiver = started(1, 2, exclusive=1, floating=2)
    assert receiver.arrived(1, backlog=5) == [(1, 2)]
    assert receiver.announced(2, 3) == []
    receiver.arrived(1, backlog=0)
    assert receiver.consumed(1) == [(2, 1)]


def test_the_pool_is_granted_round_robin() -> None:
    receiver = started(1, 2, 3, exclusive=1, floating=6)
    for channel in (1, 2, 3):
        receiver.announced(channel, 1)
    assert receiver.floating_in_use == 0
    assert receiver.announced(1, 100) == [(1, 6)]
    fill(receiver, 1, 7)
    for channel in (2, 3):
        receiver.announced(channel, 100)
    for _ in range(6):
        receiver.consumed(1)
    assert receiver.floating_in_use == 6
    for channel in (2, 3):
        fill(receiver, channel, 4)
        with pytest.raises(CreditViolationError):
            receiver.arrived(channel, 0)


def test_a_pool_that_grows_is_granted_to_one_channel_after_another() -> None:
    receiver = started(1, 2, exclusive=1, floating=0)
    for channel in (1, 2):
        assert receiver.announced(channel, 9) == []
    assert receiver.resize(1) == [(2, 1)]
    assert receiver.resize(2) == [(1, 1)]
    assert receiver.capacity == 4
    receiver.closed(1)
    receiver.closed(2)
    assert receiver.capacity == 0


def test_a_closed_channel_releases_its_buffers() -> None:
    receiver = started(1, 2, exclusive=1, floating=3)
    assert receiver.arrived(1, backlog=5) == [(1, 3)]
    assert receiver.announced(2, 9) == []
    assert receiver.closed(1) == [(2, 3)]
    assert receiver.closed(1) == []


def test_a_buffer_without_credit_is_a_violation_that_names_the_channel() -> None:
    receiver = CreditReceiver([5], exclusive=1, floating=0)
    with pytest.raises(CreditViolationError, match="channel 5"):
        receiver.arrived(5, 0)
    receiver.start()
    receiver.arrived(5, 0)
    with pytest.raises(CreditViolationError, match="channel 5"):
        receiver.arrived(5, 0)


def test_the_sender_spends_only_what_it_has() -> None:
    sender = CreditSender()
    with pytest.raises(CreditViolationError):
        sender.spend(0)
    sender.granted(2)
    sender.spend(1)
    sender.spend(0)
    assert sender.credit == 0
    with pytest.raises(CreditViolationError):
        sender.spend(0)


def test_the_sender_announces_once_what_the_receiver_cannot_know() -> None:
    sender = CreditSender()
    assert sender.announcement(0) is None
    assert sender.announcement(3) == 3
    assert sender.announcement(4) is None
    sender.granted(1)
    assert sender.announcement(4) is None
    sender.spend(0)
    assert sender.announcement(0) is None
    assert sender.announcement(1) == 1


def test_a_backlog_sent_with_a_buffer_is_not_announced_again() -> None:
    sender = CreditSender()
    sender.granted(1)
    sender.spend(3)
    assert sender.announcement(3) is None


CHANNELS = 4


class Exchange(RuleBasedStateMachine):
    """One gate and its senders. Frames of each direction arrive in order, at any later time."""

    @initialize(exclusive=st.integers(1, 3), floating=st.integers(0, 5))
    def start(self, exclusive: int, floating: int) -> None:
        self.exclusive, self.floating = exclusive, floating
        self.receiver = CreditReceiver(range(CHANNELS), exclusive, floating)
        self.senders = [CreditSender() for _ in range(CHANNELS)]
        self.queued: list[deque[int]] = [deque() for _ in range(CHANNELS)]  # at the sender
        self.arrived: list[deque[int]] = [deque() for _ in range(CHANNELS)]  # at the receiver
        self.produced = [0] * CHANNELS
        self.delivered: list[list[int]] = [[] for _ in range(CHANNELS)]
        self.to_receiver: deque[tuple[str, int, int, int]] = deque()
        self.to_senders: deque[tuple[int, int]] = deque()
        self.to_senders.extend(self.receiver.start())

    def pump(self, channel: int) -> None:
        sender, queue = self.senders[channel], self.queued[channel]
        while queue and sender.credit:
            buffer = queue.popleft()
            sender.spend(len(queue))
            self.to_receiver.append(("data", channel, buffer, len(queue)))
        backlog = sender.announcement(len(queue))
        if backlog is not None:
            self.to_receiver.append(("backlog", channel, 0, backlog))

    def receive_one(self) -> None:
        kind, channel, buffer, backlog = self.to_receiver.popleft()
        if kind == "data":
            self.to_senders.extend(self.receiver.arrived(channel, backlog))
            self.arrived[channel].append(buffer)
        else:
            self.to_senders.extend(self.receiver.announced(channel, backlog))

    def grant_one(self) -> None:
        channel, buffers = self.to_senders.popleft()
        self.senders[channel].granted(buffers)
        self.pump(channel)

    def consume_from(self, channel: int) -> None:
        self.delivered[channel].append(self.arrived[channel].popleft())
        self.to_senders.extend(self.receiver.consumed(channel))

    @rule(channel=st.integers(0, CHANNELS - 1), buffers=st.integers(1, 12))
    def produce(self, channel: int, buffers: int) -> None:
        for _ in range(buffers):
            self.queued[channel].append(self.produced[channel])
            self.produced[channel] += 1
        self.pump(channel)

    @precondition(lambda self: self.to_receiver)
    @rule(frames=st.integers(1, 5))
    def deliver_data(self, frames: int) -> None:
        for _ in range(min(frames, len(self.to_receiver))):
            self.receive_one()

    @precondition(lambda self: self.to_senders)
    @rule(frames=st.integers(1, 5))
    def deliver_credit(self, frames: int) -> None:
        for _ in range(min(frames, len(self.to_senders))):
            self.grant_one()

    @rule(channel=st.integers(0, CHANNELS - 1))
    def consume(self, channel: int) -> None:
        if self.arrived[channel]:
            self.consume_from(channel)

    @rule(share=st.floats(0, 1))
    def resize(self, share: float) -> None:
        """The pool shrinks, and grows again up to its first size."""
        floating, before = int(self.floating * share), self.receiver.floating_in_use
        self.to_senders.extend(self.receiver.resize(floating))
        assert self.receiver.floating_in_use <= max(before, floating), "promised beyond a smaller pool"

    @rule(stuck=st.sets(st.integers(0, CHANNELS - 1), max_size=CHANNELS - 1))
    def others_progress_whatever_is_stuck(self, stuck: set[int]) -> None:
        """The consumer takes nothing from some channels: all others still receive everything that was queued."""
        self._settle(set(range(CHANNELS)) - stuck)

    def _settle(self, live: set[int]) -> None:
        while True:
            if self.to_receiver:
                self.receive_one()
            elif self.to_senders:
                self.grant_one()
            else:
                channel = next((c for c in live if self.arrived[c]), None)
                if channel is None:
                    break
                self.consume_from(channel)
        for channel in live:
            assert self.delivered[channel] == list(range(self.produced[channel]))
        for channel in range(CHANNELS):
            assert len(self.arrived[channel]) <= self.exclusive + self.floating

    @invariant()
    def the_pool_is_never_overdrawn(self) -> None:
        if not hasattr(self, "receiver"):
            return
        assert self.receiver.floating_in_use <= self.floating
        beyond = sum(max(0, len(held) - self.exclusive) for held in self.arrived)
        assert beyond <= self.floating

    @invariant()
    def no_channel_is_given_more_than_there_is(self) -> None:
        if not hasattr(self, "receiver"):
            return
        for channel, sender in enumerate(self.senders):
            on_the_way = sum(1 for kind, c, _, _ in self.to_receiver if kind == "data" and c == channel)
            granted = sum(buffers for c, buffers in self.to_senders if c == channel)
            held = sender.credit + granted + on_the_way + len(self.arrived[channel])
            assert self.exclusive <= held <= self.exclusive + self.floating

    def teardown(self) -> None:
        if hasattr(self, "receiver"):
            self._settle(set(range(CHANNELS)))


TestExchange = Exchange.TestCase
TestExchange.settings = settings(max_examples=cases(60), stateful_step_count=40)
