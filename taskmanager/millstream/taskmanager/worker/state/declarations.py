"""Converts descriptors of the program to declarations of the snapshot format, and checks their compatibility."""

from __future__ import annotations

from datetime import timedelta

from millstream.core.errors import UnrecoverableError
from millstream.core.records.types import TypeInformation
from millstream.core.snapshot.metadata.model import StateKind, TtlSettings, TtlUpdate, TtlVisibility
from millstream.core.snapshot.tables.table import StateTypes
from millstream.datastream.state import StateAccessError
from millstream.datastream.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from millstream.datastream.state.ttl import StateTtlConfig, StateVisibility, TtlTimeCharacteristic, UpdateType
from millstream.taskmanager.worker.state.capturing.captured import StateDeclaration

_KINDS: dict[type[StateDescriptor], StateKind] = {
    ValueStateDescriptor: StateKind.VALUE,
    ListStateDescriptor: StateKind.LIST,
    MapStateDescriptor: StateKind.MAP,
    ReducingStateDescriptor: StateKind.REDUCING,
    AggregatingStateDescriptor: StateKind.AGGREGATING,
}


class OtherStateError(StateAccessError, UnrecoverableError):
    """A state was stored under this name with another kind than the program declares."""


def declare_keyed(
    descriptor: StateDescriptor, key_type: TypeInformation, namespace_type: TypeInformation | None = None
) -> StateDeclaration:
    """Keyed state."""
    kind = next((kind for cls, kind in _KINDS.items() if isinstance(descriptor, cls)), None)
    if kind is None:
        raise StateAccessError(f"state '{descriptor.name}': {type(descriptor).__qualname__} is not keyed state")
    map_key = descriptor.types[0] if kind is StateKind.MAP else None
    types = StateTypes(key_type, descriptor.types[-1], namespace_type, map_key)
    return StateDeclaration(descriptor.name, kind, types, ttl_settings(descriptor.ttl))


def declare_operator(descriptor: StateDescriptor, kind: StateKind) -> StateDeclaration:
    """Operator state."""
    if descriptor.ttl is not None:
        raise StateAccessError(f"state '{descriptor.name}': operator state cannot have a time-to-live")
    map_key = descriptor.types[0] if kind is StateKind.BROADCAST else None
    return StateDeclaration(descriptor.name, kind, StateTypes(None, descriptor.types[-1], None, map_key))


def check_same(before: StateDeclaration, now: StateDeclaration) -> None:
    """Raises if a name is declared a second time with another meaning."""
    if before == now:
        return
    raise StateAccessError(
        f"state '{now.name}' is declared twice, as {_described(before)} and as {_described(now)}: "
        "give one of them another name"
    )


def check_namespaces(declaration: StateDeclaration, are_given: bool) -> None:
    """Raises if a batch addresses entries by keys alone although they have namespaces, or the other way round."""
    if are_given != declaration.namespaced:
        what = "no namespaces, and some were given" if are_given else "namespaces, and none were given"
        raise StateAccessError(f"state '{declaration.name}' has {what}")


def check_restored(stored: StateDeclaration, declared: StateDeclaration) -> None:
    """Raises if a stored state is of another kind than the declared one."""
    if stored.kind is not declared.kind or stored.namespaced != declared.namespaced:
        raise OtherStateError(
            f"state '{declared.name}' was stored as {_described(stored)}, and the program declares it as "
            f"{_described(declared)}: give the new state another name"
        )


def check_native(stored: StateDeclaration, declared: StateDeclaration) -> None:
    """Raises if native files contain values that are stored differently now."""
    if (stored.ttl is None) != (declared.ttl is None):
        change = "has got" if stored.ttl is None else "has lost"
        raise OtherStateError(
            f"state '{declared.name}' {change} its time-to-live since the checkpoint was taken, which is in the state "
            "backend's own format: start from a savepoint"
        )


def ttl_settings(config: StateTtlConfig | None) -> TtlSettings | None:
    """Converts a time-to-live for snapshots."""
    if config is None:
        return None
    on_read = config.update_type is UpdateType.OnReadAndWrite
    expired = config.state_visibility is StateVisibility.ReturnExpiredIfNotCleanedUp
    return TtlSettings(
        config.ttl_ms,
        TtlUpdate.ON_READ_AND_WRITE if on_read else TtlUpdate.ON_CREATE_AND_WRITE,
        TtlVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP if expired else TtlVisibility.NEVER_RETURN_EXPIRED,
    )


def ttl_config(settings: TtlSettings | None) -> StateTtlConfig | None:
    """The time-to-live of a state that is only known from a snapshot."""
    if settings is None:
        return None
    on_read = settings.update is TtlUpdate.ON_READ_AND_WRITE
    expired = settings.visibility is TtlVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP
    return StateTtlConfig(
        UpdateType.OnReadAndWrite if on_read else UpdateType.OnCreateAndWrite,
        StateVisibility.ReturnExpiredIfNotCleanedUp if expired else StateVisibility.NeverReturnExpired,
        TtlTimeCharacteristic.ProcessingTime,
        timedelta(milliseconds=settings.ttl_ms),
    )


def undeclared_warning(operator_name: str, descriptor: StateDescriptor) -> str:
    """The warning, logged once, about a state whose values will be pickled."""
    return (
        f"{operator_name}: state '{descriptor.name}' has no declared type, or only part of one: its values are "
        "pickled, so they cannot be inspected and their type cannot change. Declare the type, such as int, "
        "tuple[str, int] or a dataclass"
    )


def _described(declaration: StateDeclaration) -> str:
    types = declaration.types
    parts = [kind.describe() for kind in (types.map_key, types.value) if kind is not None]
    text = f"{declaration.kind.value} state of {', '.join(parts)}" if parts else declaration.kind.value
    if types.namespace is not None:
        text += f" for each {types.namespace.describe()}"
    if (ttl := declaration.ttl) is not None:
        text += f" with a time-to-live of {ttl.ttl_ms} ms ({ttl.update.value}, {ttl.visibility.value})"
    return text
