"""Signals on the wire: each has its tag and is decoded, and one that no channel knows is taken in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import pytest
from exchange_link import Link, gate_of

from millstream.core.jobs.barriers import StopMode
from millstream.core.records import types as t
from millstream.core.records.batches import END_OF_INPUT, Barrier, RowBatch, Signal, StreamSignal
from millstream.taskmanager.worker.network import signals
from millstream.taskmanager.worker.network.codecs import Codec
from millstream.taskmanager.worker.network.inputs import InputChannel, InputGate, LocalInputChannel
from millstream.taskmanager.worker.network.outputs import LocalOutputChannel
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


@pytest.mark.parametrize(
    "signal", [END_OF_INPUT, Barrier(3, 5, "there", is_savepoint=True, stop=StopMode.DRAIN), Made(7, ("a",))]
)
def test_a_signal_is_decoded(made_up: None, signal: Signal) -> None:
    assert decode_signal(*encode_signal(signal)) == signal


def test_an_invalid_signal_is_refused_with_its_reason() -> None:
    with pytest.raises(UnknownSignalError, match="unknown tag 999"):
        decode_signal(999, b"")
    with pytest.raises(UnknownSignalError, match="malformed Barrier"):
        decode_signal(TAGS[Barrier], b"\x80")


Sent = tuple[InputGate, Callable[[Any], None]]


def remote() -> Sent:
    """A gate with one remote channel, and its sender of batches and signals."""
    link = Link(segment=1 << 18, exclusive=8)
    link.carry()

    def send(element: Any) -> None:
        (link.output.emit if isinstance(element, RowBatch) else link.output.signal)(element)
        link.carry_data()

    return link.gate, send


def local() -> Sent:
    channel = LocalInputChannel(0, "producer")
    output = LocalOutputChannel("consumer", channel)
    send = lambda element: (output.emit if isinstance(element, RowBatch) else output.signal)(element)  # noqa: E731
    return gate_of([channel], t.PICKLED), send


@pytest.mark.parametrize("wired", [local, remote])
def test_an_unknown_kind_of_signal_keeps_its_position(made_up: None, wired: Callable[[], Sent]) -> None:
    gate, put = wired()
    channel: InputChannel = gate.channels[0]
    first = RowBatch([1])
    for element in (first, Made(1), RowBatch([2]), Made(2)):
        put(element)
    recording = gate.record(channel, 5, None)
    put(Made(3))
    put(END_OF_INPUT)

    assert gate.take_announced() == []
    assert channel.has_all
    taken: list[Any] = []
    while (found := gate.poll()) is not None:
        taken.append(found[1].rows if isinstance(found[1], RowBatch) else found[1])
        if taken[-1] == Made(1):
            assert gate.poll(like=first) is not None  # the batch behind it, not the signal
    assert taken == [[1], Made(1), Made(2), Made(3), END_OF_INPUT]
    assert recording.is_complete
    assert len(recording.buffers) == 2  # only the batches
