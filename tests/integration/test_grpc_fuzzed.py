"""Whatever is sent to the ports of a cluster is refused with a reason, and affects nothing else.

Bytes that are not HTTP/2, frames with huge lengths, messages that violate the contract or have arbitrary fields,
methods that a service does not have, messages out of order: the services continue, none of it is an internal error,
memory stays bounded, and the job that runs meanwhile ends correctly.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import grpc
import http2_frames as http2
import pytest
from attacked_cluster import AttackedCluster, attacked_cluster, send_bytes
from fuzzed_messages import anything, messages, of_kind, words
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from thoroughness import cases

from millstream.proto import dataplane_pb2, dispatcher_pb2, inspection_pb2, resourcemanager_pb2, taskmanager_pb2

pytestmark = pytest.mark.slow

CONTRACTS = (dispatcher_pb2, resourcemanager_pb2, taskmanager_pb2, dataplane_pb2, inspection_pb2)
METHODS = [
    method
    for contract in CONTRACTS
    for service in contract.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]
ONLY_READ = {"GetJob", "Collect", "Exchange"}  # with the id of the job: the others would rightly change it
MEMORY = 300 << 20
BY_THE_SERVICE = {grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.DEADLINE_EXCEEDED}


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedCluster]:
    with attacked_cluster(tmp_path_factory.mktemp("attacked")) as made:
        yield made


@pytest.fixture(autouse=True)
def _no_error_of_ours(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    before, ours = resident(), logging.getLogger("millstream")
    ours.addHandler(caplog.handler)  # otherwise the services of this process do not pass their messages on
    yield
    ours.removeHandler(caplog.handler)
    assert [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR] == []
    assert resident() - before < MEMORY


def resident() -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) << 10 if found else 0


def serving(attacked: AttackedCluster, method: MethodDescriptor) -> list[int]:
    """The ports that serve the method."""
    found = []
    for port in attacked.ports():
        while (code := attacked.call(port, method, [b""])[0]) is grpc.StatusCode.CANCELLED:
            continue
        if code not in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNAVAILABLE):
            found.append(port)
    return found


def hello(method: MethodDescriptor, job_id: str) -> bytes:
    first = GetMessageClass(method.input_type)()
    first.hello.SetInParent()  # type: ignore[attr-defined]  # of any session
    if method.name == "Exchange":
        first.hello.job_id, first.hello.worker_address = job_id, "0.0.0.0:1"  # type: ignore[attr-defined]  # as above
    return first.SerializeToString()


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.containing_service.name}.{method.name}")
def test_any_messages(attacked: AttackedCluster, method: MethodDescriptor, caplog: pytest.LogCaptureFixture) -> None:
    ports = serving(attacked, method)
    by_all = method.containing_service.name == "Inspection"
    assert len(ports) == (2 if method.name == "Exchange" else 4 if by_all else 1)
    if method.name == "DumpThreads":
        ports = ports[:1]  # takes a moment each time, and its message is empty
    known = [f"127.0.0.1:{port}" for port in ports] + [attacked.job_id] * (method.name in ONLY_READ)
    texts = words(*known)
    beginnings: st.SearchStrategy[list[bytes]] = st.just([])
    content = anything(method.input_type, texts)
    if method.client_streaming and method.server_streaming:  # a session: its first message decides what may follow
        greeting = hello(method, attacked.job_id)
        beginnings |= st.just([greeting])
        for kind in method.input_type.fields_by_name:
            if kind.startswith("register"):
                registered = of_kind(method.input_type, kind, texts)
                beginnings |= registered.map(lambda message: [greeting, message])
        content |= messages(method.input_type, texts)

    @settings(max_examples=cases(40), suppress_health_check=list(HealthCheck))
    @given(begins=beginnings, continues=st.lists(content, min_size=1, max_size=4))
    def attack(begins: list[bytes], continues: list[bytes]) -> None:
        for port in ports:
            code, reason = attacked.call(port, method, [*begins, *continues])
            assert code not in BY_THE_SERVICE, reason

    attack()
    assert "refused" in caplog.text or "session with" in caplog.text


def test_a_client_without_the_secret_is_refused_before_anything_is_read(attacked: AttackedCluster) -> None:
    for method in METHODS:
        in_session = method.client_streaming and method.server_streaming
        for port in serving(attacked, method):
            for sent in ([b""], [b"\xff"], [hello(method, attacked.job_id)] if in_session else [b"\x0a"]):
                code, reason = attacked.call_as_stranger(port, method, sent)
                assert code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED), (method.full_name, reason)


def names_of(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


METHOD_NAMES = st.sampled_from(
    [*map(names_of, METHODS), "/", "/no.Such/Method", "//", "/millstream.dispatcher.Dispatcher"]
)
FRAMES = st.builds(
    http2.frame,
    kind=st.integers(0, 20),
    flags=st.integers(0, 255),
    stream=st.sampled_from([0, 1, 2, 3, 2**31 - 1, 2**32 - 1]),
    payload=st.binary(max_size=50),
    length=st.none() | st.sampled_from([0, 1, 2**14, 2**24 - 1]),
)
CALLS = st.builds(
    lambda method, content, length, compressed: http2.call_of(method) + http2.message(content, length, compressed),
    METHOD_NAMES,
    st.binary(max_size=50),
    st.none() | st.sampled_from([0, 1, 2**31 - 1, 2**32 - 1]),
    st.integers(0, 2),
)


def test_any_bytes(attacked: AttackedCluster) -> None:
    ports = attacked.ports()
    assert len(ports) >= 6
    spoken = st.lists(FRAMES | CALLS, max_size=5).map(lambda frames: http2.beginning() + b"".join(frames))

    @settings(max_examples=cases(60), suppress_health_check=list(HealthCheck))
    @given(content=st.binary(max_size=200) | spoken, to=st.sampled_from(ports))
    def attack(content: bytes, to: int) -> None:
        send_bytes(to, content)

    attack()


def test_oversized_lengths(attacked: AttackedCluster) -> None:
    """Nothing is allocated for announced data."""
    for port in attacked.ports():
        for method in METHODS:
            for length in (2**31 - 1, 2**32 - 1):
                send_bytes(port, http2.beginning() + http2.call_of(names_of(method)) + http2.message(b"x", length))
