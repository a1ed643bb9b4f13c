"""A session whose ends speak protobuf themselves."""

from __future__ import annotations

from typing import Any, cast

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from millstream.core.jobs.ids import LeaderEpoch
from millstream.core.messages.session import Heartbeat, Hello
from millstream.core.wire.contract import SessionContract
from millstream.proto import session_pb2


class _RawWire:
    def __init__(self, message_type: Any) -> None:
        self._message_type = message_type

    def to_bytes(self, value: Any) -> bytes:
        if isinstance(value, Hello):
            value = self._message_type(hello=session_pb2.Hello(epoch=value.epoch))
        elif isinstance(value, Heartbeat):
            value = self._message_type(heartbeat=session_pb2.Heartbeat(time=value.time, echo=value.echo))
        return cast(bytes, value.SerializeToString())

    def from_bytes(self, raw: bytes) -> Any:
        message = self._message_type.FromString(raw)
        match message.WhichOneof("kind"):
            case "hello":
                return Hello(LeaderEpoch(message.hello.epoch))
            case "heartbeat":
                return Heartbeat(message.heartbeat.time, message.heartbeat.echo)
        return message


def raw_contract(service: ServiceDescriptor, method: str) -> SessionContract[Any, Any]:
    """As `SessionContract`, with protobuf messages."""
    contract: SessionContract[Any, Any] = SessionContract(service, method, None, None)
    descriptor = service.methods_by_name[method]
    contract.__dict__["up"] = _RawWire(GetMessageClass(descriptor.input_type))
    contract.__dict__["down"] = _RawWire(GetMessageClass(descriptor.output_type))
    return contract
