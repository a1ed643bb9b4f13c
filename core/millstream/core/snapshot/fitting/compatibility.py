"""Whether a program's type can read what a snapshot holds.

Fields of a dataclass (or of a row with names) that were removed, fields added with a default, numbers that became
wider, and tuples, rows and dataclasses that were pickled and are declared now are compatible; anything else is not.
Whether large integers fit a float, and pickled values their type, these values decide when they are read.
Both sides are type JSON, so a service decides without importing the user's classes.
Keys, namespaces and the keys of maps may not change otherwise: their hash and their identity are in the snapshot.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from msgspec import Struct, field

from millstream.core.records.types import TypeInformation
from millstream.core.snapshot.metadata.model import StateSnapshot, TypeJson
from millstream.core.snapshot.metadata.types_json import describe_json, type_to_json
from millstream.core.snapshot.tables.widening import is_wider


class CompatibilityKind(Enum):
    """What a restore does with the stored values."""

    SAME = "same"
    COMPATIBLE = "compatible"
    INCOMPATIBLE = "incompatible"


class Compatibility(Struct, frozen=True):
    """A verdict. Fields that are added, removed, wider or newly declared have their path, as in `items[].price`.

    `warnings` say where a restore works and values are lost all the same, most likely. `only_declared` is set when
    nothing changed but that pickled values have a declared type now.
    """

    kind: CompatibilityKind
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    message: str = ""
    widened: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    only_declared: bool = False

    @property
    def ok(self) -> bool:
        """Whether a restore works."""
        return self.kind is not CompatibilityKind.INCOMPATIBLE


class _Refused(Exception):
    """Why the types do not fit."""


def compare_types(stored: TypeJson, declared: TypeJson | TypeInformation) -> Compatibility:
    """Compares the type in a snapshot with the type that the program declares now."""
    wanted = type_to_json(declared) if isinstance(declared, TypeInformation) else declared
    changes = _Changes()
    schemas = f"stored {describe_json(stored)}, declared {describe_json(wanted)}"
    try:
        same = _compare(stored, wanted, "", changes)
    except _Refused as refused:
        return Compatibility(CompatibilityKind.INCOMPATIBLE, message=f"{refused}: {schemas}")
    if same and not changes.declared:
        return Compatibility(CompatibilityKind.SAME)
    parts = [f"added with their default: {', '.join(changes.added)}"] if changes.added else []
    parts += [f"removed: {', '.join(changes.removed)}"] if changes.removed else []
    parts += [f"wider: {', '.join(changes.widened)}"] if changes.widened else []
    parts += [f"pickled, and declared now: {', '.join(changes.declared)}"] if changes.declared else []
    message = f"{'; '.join(parts) or 'fields in another order'}: {schemas}"
    return Compatibility(
        CompatibilityKind.COMPATIBLE, tuple(changes.added), tuple(changes.removed), message, tuple(changes.widened),
        tuple(changes.warnings), same,
    )  # fmt: skip


def compare_state(stored: StateSnapshot, declared: StateSnapshot) -> Compatibility:
    """Compares a whole state: its kind, the types of its keys, which may not change, and the type of its values."""
    keys = compare_keys(stored, declared)
    if not keys.ok:
        return keys
    values = _compare_optional("value_type", stored.value_type, declared.value_type)
    return keys if values.kind is CompatibilityKind.SAME else values


def compare_keys(stored: StateSnapshot, declared: StateSnapshot) -> Compatibility:
    """Compares what may not change: the kind of a state, and the types of its keys, namespaces and keys of maps."""
    if stored.kind is not declared.kind:
        message = f"the kind changed: stored {stored.kind.value}, declared {declared.kind.value}"
        return Compatibility(CompatibilityKind.INCOMPATIBLE, message=message)
    found = Compatibility(CompatibilityKind.SAME)
    for what in ("key_type", "namespace_type", "map_key_type"):
        verdict = _compare_optional(what, getattr(stored, what), getattr(declared, what))
        if verdict.kind is not CompatibilityKind.SAME and not verdict.only_declared:
            name = what.removesuffix("_type").replace("_", " ")
            message = f"the type of the {name} may not change: {verdict.message}"
            return Compatibility(CompatibilityKind.INCOMPATIBLE, message=message)
        if verdict.only_declared:
            found = verdict
    return found


def _compare_optional(what: str, stored: TypeJson | None, declared: TypeJson | None) -> Compatibility:
    if stored is not None and declared is not None:
        return compare_types(stored, declared)
    if stored is None and declared is None:
        return Compatibility(CompatibilityKind.SAME)
    parts = [describe_json(side) if side is not None else "none" for side in (stored, declared)]
    return Compatibility(CompatibilityKind.INCOMPATIBLE, message=f"{what}: stored {parts[0]}, declared {parts[1]}")


class _Changes(Struct, frozen=True):
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    widened: list[str] = field(default_factory=list)
    declared: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def _compare(stored: TypeJson, declared: TypeJson, path: str, changes: _Changes) -> bool:
    """Whether the types are the same, noting compatible changes; raises for any other change.

    Pickled values that are declared now are noted, and count as the same: they have not changed.
    """
    here = f"{path} " if path else ""
    if stored["type"] == "pickled" and declared["type"] in ("tuple", "row", "dataclass"):
        changes.declared.append(path or "the value")
        return True
    if stored["type"] == "row" and stored["names"] is not None and declared["type"] == "dataclass":
        fields = zip(stored["names"], stored["fields"], strict=True)
        before = {name: (field, False) for name, field in fields}  # a dataclass that was only passed on
        return _compare_named(before, _fields(declared), path, changes)
    if stored["type"] != declared["type"]:
        raise _Refused(f"{here}changed from {describe_json(stored)} to {describe_json(declared)}")
    match stored["type"]:
        case "basic":
            if stored["name"] == declared["name"]:
                return True
            if not is_wider(stored["name"], declared["name"]):
                raise _Refused(f"{here}changed from {stored['name']} to {declared['name']}")
            changes.widened.append(f"{here}from {stored['name']} to {declared['name']}")
            return False
        case "tuple":
            return _compare_positions(stored, declared, path, changes)
        case "row":
            return _compare_rows(stored, declared, path, changes)
        case "list":
            return _compare(stored["element"], declared["element"], f"{path}[]", changes)
        case "map":
            key = _compare(stored["key"], declared["key"], f"{path}{{key}}", key_changes := _Changes())
            if not key or key_changes.added or key_changes.removed:
                raise _Refused(f"{here}has another type of map key")
            return _compare(stored["value"], declared["value"], f"{path}{{}}", changes)
        case "dataclass":
            return _compare_dataclasses(stored, declared, path, changes)
    return True


def _compare_positions(stored: TypeJson, declared: TypeJson, path: str, changes: _Changes) -> bool:
    before, after = stored["fields"], declared["fields"]
    if len(before) != len(after):
        here = f"{path} " if path else ""
        raise _Refused(f"{here}has {len(after)} fields instead of {len(before)}, and without names none has a default")
    same = True
    for number, (one, other) in enumerate(zip(before, after, strict=True)):
        same &= _compare(one, other, _join(path, f"f{number}"), changes)
    return same


def _compare_rows(stored: TypeJson, declared: TypeJson, path: str, changes: _Changes) -> bool:
    if stored["names"] is None or declared["names"] is None:
        if stored["names"] != declared["names"]:
            raise _Refused(f"{path} ".lstrip() + "has names on one side only")
        return _compare_positions(stored, declared, path, changes)
    sides = [
        {name: (field, False) for name, field in zip(side["names"], side["fields"], strict=True)}
        for side in (stored, declared)
    ]
    return _compare_named(sides[0], sides[1], path, changes)


def _compare_dataclasses(stored: TypeJson, declared: TypeJson, path: str, changes: _Changes) -> bool:
    before, after = _fields(stored), _fields(declared)
    names = [side["class"].partition(":")[2] for side in (stored, declared)]
    if names[0] != names[1] and before.keys() != after.keys():
        raise _Refused(f"{path} ".lstrip() + f"is another class with other fields, {names[1]} instead of {names[0]}")
    return _compare_named(before, after, path, changes)


def _fields(dataclass: TypeJson) -> dict[str, tuple[Any, bool]]:
    return {f["name"]: (f["type"], bool(f.get("has_default"))) for f in dataclass["fields"]}


def _compare_named(
    before: dict[str, tuple[Any, bool]], after: dict[str, tuple[Any, bool]], path: str, changes: _Changes
) -> bool:
    same = list(before) == list(after)
    gone = {name: kind for name, (kind, _) in before.items() if name not in after}
    for name, (kind, defaulted) in after.items():
        if name in before:
            same &= _compare(before[name][0], kind, _join(path, name), changes)
        elif defaulted:
            changes.added.append(_join(path, name))
        else:
            former = [_join(path, one) for one in gone if _reads_as(gone[one], kind)]
            hint = f" ({' or '.join(former)}, of the same type, is gone: was it renamed?)" if former else ""
            raise _Refused(f"the field {_join(path, name)} was added without a default{hint}")
    changes.removed.extend(_join(path, name) for name in gone)
    for name, kind in gone.items():
        new = [_join(path, one) for one, (other, _) in after.items() if one not in before and _reads_as(kind, other)]
        if new:
            are = "is" if len(new) == 1 else "are"
            changes.warnings.append(
                f"the field {_join(path, name)} is gone, and {' and '.join(new)} of the same type "
                f"({describe_json(kind)}) {are} new: if it was renamed, its values are lost"
            )
    return same


def _reads_as(stored: TypeJson, declared: TypeJson) -> bool:
    """Whether values of one type could have been meant as the other."""
    try:
        _compare(stored, declared, "", changes := _Changes())
    except _Refused:
        return False
    return not changes.declared


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
