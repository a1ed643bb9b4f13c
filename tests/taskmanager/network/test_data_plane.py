"""Data planes on loopback, and strangers that connect with raw gRPC: errors on one stream do not affect others."""

from __future__ import annotations

import contextlib
import logging
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from waiting import DEADLINE, wait_until

from millstream.core.errors import ConfigurationError
from millstream.core.messages.session import Heartbeat
from millstream.core.settings.configuration import Configuration
from millstream.taskmanager.worker.network.data_plane import DataPlane, FrameArrived, PeerLost
from millstream.taskmanager.worker.network.frames import FRAME, Credit, Data, Frame, Hello

JOB = "job-1"
LOW = "127.0.0.1:0"  # sorts before every real address: its owner connects


class End:
    """One worker's data plane, with the notifications that it posted."""

    def __init__(self, job: str = JOB, **options: str) -> None:
        self.posted: queue.SimpleQueue[Any] = queue.SimpleQueue()
        configuration = Configuration({"taskmanager.memory.segment-size": "64 kb", **options})
        self.plane = DataPlane(job, "127.0.0.1", configuration, self.posted.put)
        self.plane.start()

    @property
    def address(self) -> str:
        return self.plane.address

    def next(self) -> Any:
        return self.posted.get(timeout=DEADLINE)

    def next_from(self, peer: str) -> Any:
        while (mail := self.next()).peer != peer:
            pass
        return mail

    def lost(self, peer: str) -> str:
        """The next notification is the loss of this peer; returns the reason."""
        mail = self.next()
        assert isinstance(mail, PeerLost)
        assert mail.peer == peer
        assert mail.reason
        return mail.reason

    def nothing_posted(self) -> bool:
        return self.posted.empty()


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    """Its contents end with the test."""
    with contextlib.ExitStack() as made:
        yield made


@pytest.fixture
def ends(stack: contextlib.ExitStack) -> Callable[..., End]:
    def make(job: str = JOB, **options: str) -> End:
        end = End(job, **options)
        stack.callback(end.plane.stop)
        return end

    return make


@pytest.fixture
def pair(ends: Callable[..., End]) -> tuple[End, End]:
    """Two connected workers."""
    left, right = ends(), ends()
    check_exchange(left, right)
    return left, right


def credit(channel: int) -> Credit:
    return Credit(channel, 1)


def numbered(sequence: int, size: int = 0) -> Data:
    return Data(1, sequence, payload=b"x" * size)


def hello(job: str = JOB, address: str = LOW) -> Hello:
    return Hello(job, address)


class Stranger:
    """A raw gRPC client of a data plane."""

    def __init__(self, address: str, limit: int = 10_000_000) -> None:
        self._channel = grpc.insecure_channel(
            address, options=[("grpc.max_send_message_length", limit), ("grpc.use_local_subchannel_pool", 1)]
        )
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.call: Any = self._channel.stream_stream("/millstream.dataplane.DataPlane/Exchange")(
            iter(self._outgoing.get, None), timeout=DEADLINE
        )

    def send(self, frame: Frame) -> None:
        self.say_bytes(FRAME.to_bytes(frame))

    def say_bytes(self, raw: bytes) -> None:
        self._outgoing.put(raw)

    def greet(self, address: str = LOW) -> Frame:
        self.send(hello(address=address))
        return self.receive()

    def receive(self) -> Frame:
        """The next frame that is not a heartbeat."""
        while isinstance(frame := FRAME.from_bytes(next(self.call)), Heartbeat):
            pass
        return frame

    def refusal(self, *codes: grpc.StatusCode) -> str:
        """The stream ends with one of these codes, or as malformed; returns the reason."""
        with pytest.raises(grpc.RpcError):
            list(self.call)
        assert self.call.code() in (*codes, grpc.StatusCode.INVALID_ARGUMENT)
        return str(self.call.details())

    def close(self) -> None:
        self._outgoing.put(None)
        self.call.cancel()
        self._channel.close()


@pytest.fixture
def stranger_at(stack: contextlib.ExitStack) -> Callable[[str], Stranger]:
    def make(address: str) -> Stranger:
        made = Stranger(address)
        stack.callback(made.close)
        return made

    return make


def check_exchange(left: End, right: End, channel: int = 77) -> None:
    """Both directions still work."""
    left.plane.send(right.address, credit(channel))
    right.plane.send(left.address, credit(channel + 1))
    assert right.next_from(left.address).frame == credit(channel)
    assert left.next_from(right.address).frame == credit(channel + 1)


def test_frames_are_delivered_in_order_in_both_directions(ends: Any) -> None:
    left, right = ends(), ends()
    left.plane.connect(right.address)
    count = 300
    for sequence in range(count):
        left.plane.send(right.address, numbered(sequence, 1000))
        right.plane.send(left.address, numbered(sequence))
    for here, there in ((left, right), (right, left)):
        mails = [here.next() for _ in range(count)]
        assert all(isinstance(mail, FrameArrived) and mail.peer == there.address for mail in mails)
        assert [mail.frame.sequence for mail in mails] == list(range(count))


def test_workers_do_not_use_a_web_proxy(ends: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    options = {"taskmanager.network.connect.timeout": "5 s"}
    left, right = ends(**options), ends(**options)
    right.plane.connect(left.address)
    left.plane.send(right.address, credit(3))
    assert isinstance(right.next(), FrameArrived)


@pytest.mark.parametrize("round_number", range(5))
def test_frames_sent_before_there_is_a_stream_keep_their_order(ends: Any, round_number: int) -> None:
    left, right = ends(), ends()
    sender, receiver = (left, right) if round_number % 2 else (right, left)
    receiver.plane.connect(sender.address)
    for sequence in range(500):
        sender.plane.send(receiver.address, numbered(sequence))
    assert [receiver.next().frame.sequence for _ in range(500)] == list(range(500))


def test_many_peers_at_once(ends: Any) -> None:
    all_ends = [ends() for _ in range(4)]
    for here in all_ends:
        for there in all_ends:
            if here is not there:
                here.plane.send(there.address, credit(5))
    for here in all_ends:
        assert {here.next().peer for _ in range(3)} == {e.address for e in all_ends if e is not here}


def test_a_frame_of_a_full_segment_fits(ends: Any) -> None:
    left, right = ends(), ends()
    right.plane.connect(left.address)
    left.plane.send(right.address, numbered(0, 64 * 1024))
    assert len(right.next().frame.payload) == 64 * 1024


def test_a_peer_that_stops_is_lost_once_with_a_reason(ends: Any) -> None:
    staying, leaving, other = ends(), ends(), ends()
    check_exchange(staying, leaving)
    check_exchange(staying, other)
    leaving.plane.stop()
    staying.lost(leaving.address)
    check_exchange(staying, other)
    assert staying.nothing_posted()
    assert leaving.nothing_posted()


CHILD = """
import ctypes, os, signal, sys
from millstream.core.settings.configuration import Configuration
from millstream.taskmanager.worker.network.data_plane import DataPlane
from millstream.taskmanager.worker.network.frames import Credit
_, peer, silence = sys.argv
plane = DataPlane("job-1", "127.0.0.1", Configuration(), lambda mail: None)
plane.start()
print(plane.address, flush=True)
plane.send(peer, Credit(4, 1))
sys.stdin.readline()
if silence == "frozen":
    os.kill(os.getpid(), signal.SIGSTOP)
ctypes.PyDLL(None).read(0, ctypes.create_string_buffer(1), 1)  # keeps the interpreter lock while it waits
plane.send(peer, Credit(5, 1))
sys.stdin.read()
"""


@contextlib.contextmanager
def child(end: End, silence: str = "busy") -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A peer in another process that has sent one frame, and falls silent on request."""
    command = [sys.executable, "-c", CHILD, end.address, silence]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            address = process.stdout.readline().decode().strip()
            end.plane.connect(address)
            assert end.next() == FrameArrived(address, Credit(4, 1))
            yield address, process
        finally:
            process.kill()


def request(process: subprocess.Popen[bytes], text: bytes) -> None:
    process.stdin.write(text)
    process.stdin.flush()


@pytest.mark.process
def test_a_peer_whose_process_is_killed_is_lost_at_once(pair: tuple[End, End]) -> None:
    staying, other = pair
    with child(staying) as (address, process):
        process.kill()
        staying.lost(address)
    check_exchange(staying, other)


@pytest.mark.process
def test_a_peer_whose_native_code_holds_the_interpreter_lock_is_not_lost(
    ends: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "millstream")
    end = ends(**{"heartbeat.interval": "10 ms", "heartbeat.timeout": f"{DEADLINE} s"})
    with child(end) as (address, process):
        request(process, b"now\n")
        wait_until(lambda: f"{address} is silent, but its process responds" in caplog.text, "a response of the process")
        request(process, b"x")
        assert end.next() == FrameArrived(address, Credit(5, 1))


@pytest.mark.process
def test_a_peer_that_is_frozen_is_lost(ends: Any) -> None:
    end = ends(**{"heartbeat.interval": "10 ms", "heartbeat.timeout": "100 ms"})
    with child(end, "frozen") as (address, process):
        request(process, b"now\n")
        assert end.lost(address) == "no heartbeat for 0.1 s"


def test_a_peer_that_never_connects_is_lost_after_the_timeout(ends: Any) -> None:
    end = ends(**{"taskmanager.network.connect.timeout": "100 ms"})
    end.plane.connect("127.0.0.1:1")  # sorts before: it would have to connect
    assert end.lost("127.0.0.1:1") == "it did not connect within 0.1 s"
    end.plane.connect("127.0.0.9:9")  # sorts behind: it is connected to, and does not listen
    assert "0.1 s" in end.lost("127.0.0.9:9")


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"\xff\xff\xff", "malformed frame"),
        (b"", "it has no kind"),
        (b"\x7a\x01a", "it has no kind"),
        (FRAME.to_bytes(credit(1)), "the first frame has to be a hello"),
        (FRAME.to_bytes(hello(job="job-2")), "this worker runs job job-1, not job-2"),
        (FRAME.to_bytes(hello(address="127.0.0.1:99999")), "must wait for the connection"),
    ],
    ids=["malformed", "empty", "unknown kind", "no hello", "another job", "wrong direction"],
)
def test_a_stranger_with_a_wrong_greeting_is_refused_with_the_reason(
    pair: tuple[End, End], stranger_at: Any, first: bytes, reason: str
) -> None:
    left, right = pair
    stranger = stranger_at(left.address)
    stranger.say_bytes(first)
    assert reason in stranger.refusal()
    check_exchange(left, right)
    assert left.nothing_posted()


@pytest.mark.parametrize(
    ("bad", "reason"),
    [(b"\x0a\xff", "malformed frame"), (b"", "it has no kind")],
    ids=["malformed", "no kind"],
)
def test_a_peer_with_a_later_violation_loses_only_its_own_stream(
    pair: tuple[End, End], stranger_at: Any, bad: bytes, reason: str
) -> None:
    left, right = pair
    stranger = stranger_at(left.address)
    assert stranger.greet() == hello(address=left.address)
    stranger.send(credit(3))
    assert left.next() == FrameArrived(LOW, credit(3))
    stranger.say_bytes(bad)
    assert reason in stranger.refusal()
    assert reason in left.lost(LOW)
    check_exchange(left, right)
    assert left.nothing_posted()


def test_an_oversized_message_loses_only_its_own_stream(pair: tuple[End, End], stranger_at: Any) -> None:
    left, right = pair
    stranger = stranger_at(left.address)
    stranger.greet()
    stranger.send(numbered(0, 64 * 1024 + 64 * 1024))
    stranger.refusal(grpc.StatusCode.RESOURCE_EXHAUSTED)
    left.lost(LOW)
    check_exchange(left, right)


def test_a_peer_that_connects_again_has_lost_its_first_stream(ends: Any, stranger_at: Any) -> None:
    left = ends()
    first, second = stranger_at(left.address), stranger_at(left.address)
    first.greet()
    second.greet()
    assert first.refusal() == left.lost(LOW) == "it connected again"
    second.send(credit(8))
    assert left.next() == FrameArrived(LOW, credit(8))
    left.plane.send(LOW, credit(9))
    assert second.receive() == credit(9)
    assert left.nothing_posted()


def test_a_lost_peer_can_be_connected_to_again_and_gets_nothing_from_before(pair: tuple[End, End]) -> None:
    left, right = pair
    left.plane.refuse(right.address, "you broke it")
    for end, other in ((left, right), (right, left)):
        assert isinstance(end.next_from(other.address), PeerLost)
        end.plane.send(other.address, credit(13))
    for end, other in ((left, right), (right, left)):
        end.plane.connect(other.address)
    left.plane.send(right.address, credit(14))
    right.plane.send(left.address, credit(15))
    assert right.next() == FrameArrived(left.address, credit(14))
    assert left.next() == FrameArrived(right.address, credit(15))


def test_frames_sent_when_a_peer_is_lost_use_its_next_stream(ends: Any, stranger_at: Any) -> None:
    """A task that is deployed right after the notification sends its first credit only once."""
    right = ends()
    posted = right.plane._post

    def post(mail: Any) -> None:
        if isinstance(mail, PeerLost):
            right.plane.connect(LOW)
            right.plane.send(LOW, credit(9))
        posted(mail)

    right.plane._post = post
    first = stranger_at(right.address)
    first.greet()
    first.close()
    assert isinstance(right.next(), PeerLost)
    second = stranger_at(right.address)
    second.greet()
    assert second.receive() == credit(9)


def test_refusing_a_peer_sends_it_the_reason_and_loses_it(ends: Any, stranger_at: Any) -> None:
    left, right = ends(), ends()
    stranger = stranger_at(left.address)
    stranger.greet()
    left.plane.send(LOW, credit(1))
    assert stranger.receive() == credit(1)
    left.plane.refuse(LOW, "buffer 7 on channel 1 instead of 5")
    assert stranger.refusal() == left.lost(LOW) == "buffer 7 on channel 1 instead of 5"
    check_exchange(left, right)


def test_both_ends_of_a_refused_stream_are_notified(ends: Any) -> None:
    for swap in (False, True):
        left, right = ends(), ends()
        check_exchange(left, right)
        refuser, refused = (left, right) if swap else (right, left)
        refuser.plane.refuse(refused.address, "you broke it")
        assert refuser.lost(refused.address) == "you broke it"
        refused.lost(refuser.address)


def test_refusing_an_unknown_peer_has_no_effect(ends: Any) -> None:
    left, right = ends(), ends()
    left.plane.refuse("127.0.0.1:1", "who are you")
    check_exchange(left, right)


def test_a_peer_of_another_job_is_lost_with_the_reason(ends: Any) -> None:
    ours, theirs = ends(), ends("job-2")
    dialler, listener = sorted((ours, theirs), key=lambda end: end.address)
    dialler.plane.connect(listener.address)
    assert "this worker runs job" in dialler.lost(listener.address)
    assert listener.nothing_posted()


def test_a_stranger_that_disconnects_before_its_greeting_leaves_no_trace(ends: Any) -> None:
    left, right = ends(), ends()
    stranger = Stranger(left.address)
    stranger.close()
    check_exchange(left, right)
    assert left.nothing_posted()


def test_a_peer_that_disconnects_is_lost(ends: Any) -> None:
    left = ends()
    stranger = Stranger(left.address)
    stranger.greet()
    stranger.close()
    left.lost(LOW)


def test_a_worker_can_stop_at_any_moment_while_connecting(ends: Any) -> None:
    peer, never = ends(), threading.Event()
    for moment in range(80):
        end = End()
        end.plane.connect(peer.address)
        never.wait(moment % 40 * 50e-6)  # the stream is established after about a millisecond
        end.plane.stop()


def test_stopping_twice_or_without_start_is_harmless() -> None:
    DataPlane(JOB, "127.0.0.1", Configuration(), lambda mail: None).stop()
    end = End()
    end.plane.stop()
    end.plane.stop()


def test_other_addresses_than_loopback_need_security() -> None:
    plane = DataPlane(JOB, "0.0.0.0", Configuration(), lambda mail: None)
    with pytest.raises(ConfigurationError, match=r"taskmanager\.host"):
        plane.start()
    plane.stop()


def test_workers_with_one_secret_exchange_records_and_strangers_are_refused(
    ends: Callable[..., End], stranger_at: Callable[[str], Stranger]
) -> None:
    secret = {"security.cluster.secret": "the secret of this cluster"}
    left, right = ends(**secret), ends(**secret)
    check_exchange(left, right)
    stranger = stranger_at(left.address)
    stranger.send(hello())
    stranger.refusal(grpc.StatusCode.UNAVAILABLE)
    assert left.nothing_posted()
    check_exchange(left, right)


def test_a_worker_with_another_secret_is_lost_with_the_reason(ends: Callable[..., End]) -> None:
    brief = {"taskmanager.network.connect.timeout": "2 s"}
    one = ends(**brief, **{"security.cluster.secret": "the secret of one cluster"})
    other = ends(**brief, **{"security.cluster.secret": "the secret of another one"})
    first, last = sorted((one, other), key=lambda end: end.address)
    first.plane.connect(last.address)  # the one that sorts first connects
    assert "different secret" in first.lost(last.address)
    assert last.nothing_posted()
