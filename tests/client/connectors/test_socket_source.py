"""The socket source against a real socket on this machine."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from source_harness import FakeReaderContext
from waiting import DEADLINE

from millstream.core.errors import InvalidProgramError
from millstream.core.records.batches import RowBatch
from millstream.datastream.connectors.base import Boundedness, PollStatus
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.fetching import FetchingReader
from millstream.datastream.connectors.socket import SocketSplit, SocketTextSource


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(DEADLINE)
        yield listening


def _port(server: socket.socket) -> int:
    return int(server.getsockname()[1])


class Reading:
    """A reader, woken as the slot worker would wake it."""

    def __init__(self, source: SocketTextSource) -> None:
        self.context = FakeReaderContext()
        self.woken = threading.Event()
        self.context.on_wake_up = self.woken.set
        self.reader = source.create_reader(self.context)
        self.reader.start()
        self.reader.add_splits([SocketSplit("127.0.0.1", 1)])

    def until(self, done: Callable[[list[str]], bool], max_rows: int = 1000) -> list[str]:
        """Polls on every wake-up until enough was read or the source ended."""
        rows: list[str] = []
        deadline = time.monotonic() + DEADLINE
        while not done(rows):
            self.woken.clear()
            result = self.reader.poll_next(max_rows)
            if isinstance(result, RowBatch):
                assert len(result.rows) <= max_rows
                rows.extend(result.rows)
            elif result is PollStatus.END_OF_INPUT:
                break
            elif self.context.requests > 1:
                self.reader.notify_no_more_splits()
            else:
                assert self.woken.wait(deadline - time.monotonic()), f"nothing came; so far {rows}"
        return rows

    def all(self, max_rows: int = 1000) -> list[str]:
        return self.until(lambda rows: False, max_rows)


@pytest.fixture
def reading(server: socket.socket) -> Iterator[Callable[..., Reading]]:
    started: list[Reading] = []

    def start(**options: Any) -> Reading:
        started.append(Reading(SocketTextSource("127.0.0.1", _port(server), **options)))
        return started[-1]

    yield start
    for one in started:
        one.reader.close()


def _say(server: socket.socket, one: Reading, *parts: bytes) -> None:
    """The reader connects, and receives this and the end of the stream."""
    one.reader.poll_next(1)
    connection, _ = server.accept()
    with connection:
        for part in parts:
            connection.sendall(part)


def _threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("socket ")]


def test_lines_come_until_the_stream_ends(server: socket.socket, reading: Callable[..., Reading]) -> None:
    one = reading()
    assert one.reader.poll_next(10) is PollStatus.NOTHING_AVAILABLE
    assert one.reader.snapshot_state(1) != []
    connection, _ = server.accept()
    with connection:
        connection.sendall("a\r\nb\n\nsplit é".encode()[:-1])
        assert one.until(lambda rows: len(rows) == 3, max_rows=2) == ["a", "b", ""]
        connection.sendall("é".encode()[1:] + b" end\nlast")
    assert one.all() == ["split é end", "last"]
    assert one.reader.snapshot_state(2) == []
    one.reader.close()
    assert _threads() == []


def test_another_delimiter(server: socket.socket, reading: Callable[..., Reading]) -> None:
    one = reading(delimiter="||")
    _say(server, one, b"a|b||c\nd|", b"|e")
    assert one.all() == ["a|b", "c\nd", "e"]


def test_a_retry_connects_again(server: socket.socket, reading: Callable[..., Reading]) -> None:
    one = reading(max_retry=1)
    _say(server, one, b"first\n")
    again, _ = server.accept()
    with again:
        again.sendall(b"second\n")
    assert one.all() == ["first", "second"]


def test_a_refused_connection_names_the_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = _port(unused)
        one = Reading(SocketTextSource("127.0.0.1", port))
        try:
            with pytest.raises(ConnectorError, match=rf"127\.0\.0\.1:{port}: Connection refused"):
                one.all()
        finally:
            one.reader.close()
    assert _threads() == []


@pytest.mark.parametrize("state", ["connecting", "idle", "between retries"])
def test_close_ends_the_thread_at_once(server: socket.socket, reading: Callable[..., Reading], state: str) -> None:
    one = reading(max_retry=-1)
    one.reader.poll_next(1)
    if state != "connecting":
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"x\n")
            assert one.until(lambda rows: len(rows) == 1) == ["x"]
            if state == "idle":
                one.reader.close()
    one.reader.close()
    assert _threads() == []


def test_a_full_buffer_stops_reading_and_close_still_works(
    server: socket.socket, reading: Callable[..., Reading], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FetchingReader, "capacity", 10)
    one = reading()
    connection, _ = server.accept()
    with connection:
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.sendall(b"line\n" * 5_000_000)
        assert one.woken.wait(DEADLINE)
        batch = one.reader.poll_next(1_000_000)
        assert isinstance(batch, RowBatch)
        assert 0 < len(batch) < 50_000
        one.reader.close()
    assert _threads() == []


@pytest.mark.parametrize(
    "options",
    [{"port": 0}, {"port": 70000}, {"port": 1, "delimiter": ""}, {"port": 1, "max_retry": -2}],
)
def test_bad_options_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidProgramError):
        SocketTextSource("127.0.0.1", **options)


def test_it_is_unbounded() -> None:
    assert SocketTextSource("127.0.0.1", 1).get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED


def test_bytes_that_are_no_text_are_named_or_counted(server: socket.socket, reading: Callable[..., Reading]) -> None:
    for on_error, counted in (("fail", 0), ("skip", 2), ("dead-letter", 2)):
        one = reading(on_error=on_error)
        _say(server, one, b"good\n\xff\xfe\ncaf\xc3\xa9\n\xc3")
        if on_error == "fail":
            with pytest.raises(ConnectorError, match=r"socket source 127.0.0.1:\d+: not valid utf-8.*at byte 5"):
                one.all()
            continue
        assert one.all() == ["good", "café"]
        assert one.context.count("numRecordsInErrors") == counted
        letters = one.context.side.get("dead-letters", [])
        assert [(letter.offset, letter.raw) for letter in letters] == (
            [(5, b"\xff\xfe"), (14, b"\xc3")] if on_error == "dead-letter" else []
        )
