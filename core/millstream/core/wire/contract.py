"""The classes of contracts, of a service's calls and of a session.

Separate from the contracts themselves, since not every process needs all messages (`millstream.core.wire.pipes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from millstream.core.messages.session import SessionSignal
from millstream.core.wire.wire import Wire

Up = TypeVar("Up")
Down = TypeVar("Down")


@dataclass(frozen=True)
class SessionContract(Generic[Up, Down]):
    """A long-lived exchange: the caller sends `Up`, the called service `Down`."""

    service: ServiceDescriptor
    method: str
    up_type: Any
    down_type: Any

    @cached_property
    def _descriptor(self) -> MethodDescriptor:
        return self.service.methods_by_name[self.method]

    @cached_property
    def up(self) -> Wire[Up | SessionSignal]:
        """The encoding of messages from the client."""
        return Wire(self.up_type | SessionSignal, GetMessageClass(self._descriptor.input_type))

    @cached_property
    def down(self) -> Wire[Down | SessionSignal]:
        """The encoding of messages from the server."""
        return Wire(self.down_type | SessionSignal, GetMessageClass(self._descriptor.output_type))


@dataclass(frozen=True)
class ServiceContract:
    """The calls of a service, each with request and response. Its sessions have separate contracts."""

    service: ServiceDescriptor
    calls: Mapping[str, tuple[Any, Any]]

    @cached_property
    def wires(self) -> Mapping[str, tuple[Wire[Any] | None, Wire[Any] | None]]:
        """The encodings of request and response by method; None for a session, whose ends encode by themselves."""
        return {method.name: self._wires(method) for method in self.service.methods}

    def _wires(self, method: MethodDescriptor) -> tuple[Wire[Any] | None, Wire[Any] | None]:
        if method.client_streaming and method.server_streaming:
            return None, None
        request, response = self.calls[method.name]
        return Wire(request, GetMessageClass(method.input_type)), Wire(response, GetMessageClass(method.output_type))
