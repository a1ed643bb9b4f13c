"""Frames on the wire: whatever a worker can send to another arrives unchanged."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import cases

from millstream.core.messages.session import Heartbeat
from millstream.core.wire.wire import UnknownKindError, WireError
from millstream.taskmanager.worker.network.frames import FRAME, Backlog, Credit, Data, Frame, Hello

SMALL, LARGE = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
KINDS: dict[type[Frame], st.SearchStrategy[Frame]] = {
    Hello: st.builds(Hello, st.text(), st.text()),
    Data: st.builds(Data, LARGE, LARGE, SMALL, st.booleans(), SMALL, st.booleans(), st.binary(), st.booleans()),
    Credit: st.builds(Credit, LARGE, SMALL, SMALL),
    Backlog: st.builds(Backlog, LARGE, SMALL, LARGE),
    Heartbeat: st.builds(Heartbeat, st.floats(allow_nan=False), st.floats(allow_nan=False)),
}


def test_every_kind_of_frame_is_covered() -> None:
    assert set(KINDS) == set(get_args(Frame))


@settings(max_examples=cases(200))
@given(st.one_of(*KINDS.values()))
def test_a_frame_arrives_unchanged(frame: Frame) -> None:
    assert FRAME.from_bytes(FRAME.to_bytes(frame)) == frame


@pytest.mark.parametrize(
    ("raw", "error"),
    [(b"", UnknownKindError), (b"\x7a\x01a", UnknownKindError), (b"\xff\xff\xff", WireError), (b"\x0a\xff", WireError)],
    ids=["empty", "of a new kind", "no protobuf", "cut short"],
)
def test_an_invalid_frame_is_refused_and_so_is_one_without_a_kind(raw: bytes, error: type[WireError]) -> None:
    with pytest.raises(WireError) as refused:
        FRAME.from_bytes(raw)
    assert refused.type is error
