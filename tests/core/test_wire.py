"""Messages between processes: everything is decoded unchanged, and an incompatible contract is refused."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from enum import Enum
from random import Random
from types import NoneType
from typing import Any

import pytest
from msgspec import Struct, StructMeta

from millstream.core.jobs.failures import TaskFailure
from millstream.core.messages.resource_manager import Requirement, ShutDown, TaskManagerCommand
from millstream.core.messages.session import Heartbeat, Hello
from millstream.core.wire import contracts, pipes
from millstream.core.wire.contract import ServiceContract, SessionContract
from millstream.core.wire.wire import ContractError, Wire, WireError
from millstream.proto import resourcemanager_pb2, session_pb2, status_pb2

PLAIN: dict[Any, tuple[Any, ...]] = {
    int: (0, 1, 2**31 - 1),  # the smallest numbers of the contracts have 32 bits
    str: ("", "a", "\0 mühle\n水车"),
    bytes: (b"", b"\0\xff"),
    bool: (False, True),
    float: (0.0, -1.5, 1e300),
}


def any_value(hint: Any, random: Random, depth: int = 0) -> Any:
    """A value of the type; over many calls, with all members of unions and enums."""
    while isinstance(hint, typing.NewType):
        hint = hint.__supertype__
    if hint in PLAIN:
        return random.choice(PLAIN[hint])
    if hint is NoneType:
        return None
    if isinstance(hint, type) and issubclass(hint, Enum):
        return random.choice(list(hint))
    if isinstance(hint, StructMeta):
        hints = typing.get_type_hints(hint)
        return hint(**{name: any_value(hints[name], random, depth + 1) for name in hint.__struct_fields__})
    number = random.randint(0, max(0, 3 - depth))
    match typing.get_origin(hint), typing.get_args(hint):
        case (origin, (inner, *_)) if origin in (tuple, frozenset):
            return origin(any_value(inner, random, depth) for _ in range(number))
        case (origin, (key, value)) if origin in (Mapping, dict):
            return {any_value(key, random): any_value(value, random, depth) for _ in range(number)}
        case _, members:
            return any_value(random.choice(members), random, depth)


def wires() -> dict[str, tuple[Any, Wire[Any]]]:
    """Every message of every contract, with its Python type."""
    found: dict[str, tuple[Any, Wire[Any]]] = {}
    for name, value in [*vars(contracts).items(), *vars(pipes).items()]:
        match value:
            case SessionContract():
                found[f"{name}.up"] = (value.up_type | Hello | Heartbeat, value.up)
                found[f"{name}.down"] = (value.down_type | Hello | Heartbeat, value.down)
            case ServiceContract():
                for call, types in value.calls.items():
                    for python_type, wire in zip(types, value.wires[call], strict=True):
                        found[f"{name}.{call}.{python_type.__name__}"] = (python_type, wire)
            case Wire():
                found[name] = (value.python_type, value)
    return found


ALL = wires()


@pytest.mark.parametrize("name", ALL)
def test_messages_are_decoded_unchanged(name: str) -> None:
    python_type, wire = ALL[name]
    random = Random(name)
    for _ in range(60):
        value = any_value(python_type, random)
        assert wire.from_bytes(wire.to_bytes(value)) == value


def test_every_call_of_every_service_has_its_types() -> None:
    services = [value for value in vars(contracts).values() if isinstance(value, ServiceContract)]
    assert len(services) == 5
    for service in services:
        sessions = {m.name for m in service.service.methods if m.client_streaming and m.server_streaming}
        assert set(service.calls) == {m.name for m in service.service.methods} - sessions


def test_a_failure_may_hold_failures() -> None:
    wire: Wire[TaskFailure] = Wire(TaskFailure, status_pb2.TaskFailure)
    failure = TaskFailure(exception="a", concurrent=(TaskFailure(exception="b", concurrent=(TaskFailure(),)),))
    assert wire.from_bytes(wire.to_bytes(failure)) == failure


@pytest.mark.parametrize(
    "raw",
    [
        b"\xff\xff\xff",
        b"",
        status_pb2.TaskFailure(exception="no number").SerializeToString(),
        b"\xda\x3e\x00",
    ],
    ids=["no protobuf", "empty", "another message", "a kind that is new"],
)
def test_a_message_that_violates_the_contract_is_refused(raw: bytes) -> None:
    with pytest.raises(WireError, match="TaskManagerCommand"):
        contracts.TASK_MANAGER_AT_RESOURCE_MANAGER.down.from_bytes(raw)


def test_a_value_unknown_to_this_process_is_refused() -> None:
    wire: Wire[TaskFailure] = Wire(TaskFailure, status_pb2.TaskFailure)
    message = status_pb2.TaskFailure()
    message.MergeFromString(b"\x98\x01\x63")  # kind = 99
    with pytest.raises(WireError, match="99 is not a valid FailureKind"):
        wire.from_bytes(message.SerializeToString())


class Lacking(Struct, frozen=True):
    allocation_id: str


class Misshapen(Struct, frozen=True):
    allocation_id: tuple[str, ...]
    reason: str


@pytest.mark.parametrize(
    ("python_type", "message_type", "why"),
    [
        (Lacking, resourcemanager_pb2.SlotRefused, "differ in \\['reason'\\]"),
        (Misshapen, resourcemanager_pb2.SlotRefused, "has no form on the wire"),
        (TaskManagerCommand, resourcemanager_pb2.TaskManagerCommand, "is the member .*heartbeat"),
        (TaskManagerCommand | Hello | Heartbeat | Requirement, resourcemanager_pb2.TaskManagerCommand, "no member for"),
        (ShutDown | Hello, session_pb2.Hello, "no union"),
    ],
)
def test_an_incompatible_contract_is_a_programming_error(python_type: Any, message_type: Any, why: str) -> None:
    with pytest.raises(ContractError, match=why):
        Wire(python_type, message_type).from_bytes(b"")
