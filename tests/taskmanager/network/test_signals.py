"""Signals on the wire: each has its tag and comes back, and one that no channel knows passes in its turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import pytest

from millstream.core.jobs.barriers import StopMode
from millstream.core.records import types as t
from millstream.core.records.batches import END_OF_INPUT, Barrier, RowBatch, Signal, StreamSignal
from millstream.taskmanager.worker.network import signals
from millstream.taskmanager.worker.network.codecs import Codec, ElementCodec
from millstream.taskmanager.worker.network.credit import CreditReceiver
from millstream.taskmanager.worker.network.frames import FRAME, Data
from millstream.taskmanager.worker.network.inputs import InputChannel, InputGate, LocalInputChannel, RemoteInputChannel
from millstream.taskmanager.worker.network.outputs import LocalOutputChannel, RemoteOutputChannel
from millstream.taskmanager.worker.network.signals import (
    TAGS,
    UnknownSignalError,
    decode_signal,
    encode_signal,
    is_signal,
)


@dataclass(frozen=True, slots=True)
class Made(StreamSignal):
    """A signal that no channel, gate or recording knows."""

    number: int
    words: tuple[str, ...] = ()


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(signals.TAGS, Made, 1000)


def test_every_signal_has_a_tag_of_its_own_that_no_codec_has() -> None:
    members = {*get_args(Signal), *StreamSignal.__subclasses__()} - {StreamSignal}
    ours = {member.__name__ for member in members if member.__module__.startswith("millstream.")}
    assert ours == {kind.__name__ for kind in TAGS}  # by name: a class with slots leaves the one without behind
    assert len(set(TAGS.values())) == len(TAGS)
    assert all(map(is_signal, TAGS.values()))
    assert not any(map(is_signal, Codec))


@pytest.mark.parametrize("signal", [END_OF_INPUT, Barrier(3, 5, True, "there", stop=StopMode.DRAIN), Made(7, ("a",))])
def test_a_signal_comes_back(made_up: None, signal: Signal) -> None:
    assert decode_signal(*encode_signal(signal)) == signal


def test_what_is_no_signal_is_refused_with_its_reason() -> None:
    with pytest.raises(UnknownSignalError, match="unknown tag 999"):
        decode_signal(999, b"")
    with pytest.raises(UnknownSignalError, match="malformed Barrier"):
        decode_signal(TAGS[Barrier], b"\x80")


def remote(put: list[Callable[[Any], None]]) -> InputGate:
    """A gate of one remote channel; `put` gets what sends batches and signals to it."""
    frames: deque[bytes] = deque()
    output = RemoteOutputChannel(
        0, "consumer", "there", ElementCodec(t.PICKLED), 1 << 18, False, lambda _, f: frames.append(FRAME.to_bytes(f))
    )
    channel = RemoteInputChannel(0, "producer", "here")
    credit = CreditReceiver([0], 8, 0)
    gate = InputGate([channel], ElementCodec(t.PICKLED), credit, lambda _, buffers, rows: output.granted(buffers))
    gate.start()

    def send(element: Any) -> None:
        (output.emit if isinstance(element, RowBatch) else output.signal)(element)
        while frames:
            frame = FRAME.from_bytes(frames.popleft())
            assert isinstance(frame, Data)
            gate.arrived(channel, frame)

    put.append(send)
    return gate


def local(put: list[Callable[[Any], None]]) -> InputGate:
    channel = LocalInputChannel(0, "producer")
    output = LocalOutputChannel("consumer", channel)
    put.append(lambda element: (output.emit if isinstance(element, RowBatch) else output.signal)(element))
    return InputGate([channel], ElementCodec(t.PICKLED), CreditReceiver([], 2, 0), lambda *_: None)


@pytest.mark.parametrize("wired", [local, remote])
def test_a_signal_that_nobody_heard_of_keeps_its_place(
    made_up: None, wired: Callable[[list[Callable[[Any], None]]], InputGate]
) -> None:
    put: list[Callable[[Any], None]] = []
    gate = wired(put)
    channel: InputChannel = gate.channels[0]
    first = RowBatch([1])
    for element in (first, Made(1), RowBatch([2]), Made(2)):
        put[0](element)
    recording = gate.record(channel, 5, None)
    put[0](Made(3))
    put[0](END_OF_INPUT)

    assert gate.take_announced() == []
    assert channel.has_all
    taken: list[Any] = []
    while (found := gate.poll()) is not None:
        taken.append(found[1].rows if isinstance(found[1], RowBatch) else found[1])
        if taken[-1] == Made(1):
            assert gate.poll(like=first) is not None  # the batch behind it, not the signal
    assert taken == [[1], Made(1), Made(2), Made(3), END_OF_INPUT]
    assert recording.is_complete
    assert len(recording.buffers) == 2  # the batches alone
