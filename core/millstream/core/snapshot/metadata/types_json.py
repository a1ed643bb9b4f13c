"""Type information as JSON, in metadata and messages.

| type | JSON |
|---|---|
| a primitive | `{"type": "basic", "name": "Long"}` |
| undeclared | `{"type": "pickled"}` |
| a tuple | `{"type": "tuple", "fields": [...]}`, where its fields have names with `"names": [...]` |
| a `Row` | `{"type": "row", "names": [...] or null, "fields": [...]}` |
| a list | `{"type": "list", "element": ...}` |
| a dict | `{"type": "map", "key": ..., "value": ...}` |
| a dataclass | `{"type": "dataclass", "class": "module:Name", "fields": [{"name", "type", "has_default"}]}` |

A field that does not count when instances are compared has `"compared": false`: it does not affect a key's key group.

Reading never imports: a dataclass comes back as a `Row` type with the dataclass's field names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from millstream.core.errors import InvalidProgramError
from millstream.core.keys.key_values import compared_fields
from millstream.core.records import types as t
from millstream.core.snapshot.metadata.json_reader import JsonNode
from millstream.core.snapshot.metadata.model import TypeJson

_BASIC: dict[str, t.BasicType] = {
    b.name: b
    for b in (
        t.STRING, t.BOOLEAN, t.BYTE, t.SHORT, t.INT, t.LONG, t.FLOAT, t.DOUBLE, t.BIG_INT, t.BIG_DEC, t.BYTES,
        t.INSTANT, t.DATE, t.TIME, t.TIMESTAMP,
    )
}  # fmt: skip

_DEEPEST = 50  # levels of a type; what reads columns of it needs several calls for each

PICKLED_JSON: TypeJson = {"type": "pickled"}


def stored_type(type: t.TypeInformation) -> t.TypeInformation:
    """The type that columns can hold: the type itself, or pickled when it refers to itself or is unknown."""
    return type if _storable(type, ()) else t.PICKLED


def _storable(type: t.TypeInformation, inside: tuple[type, ...]) -> bool:
    if isinstance(type, t.DataclassType):
        if type.cls in inside:
            return False
        try:
            fields = type.field_types()
        except (NameError, AttributeError, TypeError):  # annotations that do not resolve
            return False
        return bool(fields) and all(_storable(f, (*inside, type.cls)) for f in fields)
    if isinstance(type, t.TupleType | t.RowType):
        return bool(type.fields) and all(_storable(f, inside) for f in type.fields)
    if isinstance(type, t.ListType):
        return _storable(type.element, inside)
    if isinstance(type, t.MapType):
        return _storable(type.key, inside) and _storable(type.value, inside)
    return type == t.PICKLED or (isinstance(type, t.BasicType) and _BASIC.get(type.name) == type)


def type_to_json(type: t.TypeInformation) -> TypeJson:
    """A type as its columns are written; what columns cannot hold is pickled."""
    return _to_json(stored_type(type))


def _to_json(type: t.TypeInformation) -> dict[str, Any]:
    if isinstance(type, t.BasicType):
        return {"type": "basic", "name": type.name}
    if isinstance(type, t.TupleType):
        named = {} if type.names is None else {"names": list(type.names)}
        return {"type": "tuple", **named, "fields": [_to_json(f) for f in type.fields]}
    if isinstance(type, t.RowType):
        names = list(type.names) if type.names is not None else None
        return {"type": "row", "names": names, "fields": [_to_json(f) for f in type.fields]}
    if isinstance(type, t.ListType):
        return {"type": "list", "element": _to_json(type.element)}
    if isinstance(type, t.MapType):
        return {"type": "map", "key": _to_json(type.key), "value": _to_json(type.value)}
    if isinstance(type, t.DataclassType):
        counting = compared_fields(type.cls)
        fields = [
            {"name": f.name, "type": _to_json(inner), "has_default": has_default(f)}
            | ({} if counting is None or f.name in counting else {"compared": False})
            for f, inner in zip(dataclasses.fields(type.cls), type.field_types(), strict=True)
        ]
        return {"type": "dataclass", "class": f"{type.cls.__module__}:{type.cls.__qualname__}", "fields": fields}
    if type == t.PICKLED:
        return dict(PICKLED_JSON)
    raise InvalidProgramError(f"the type {type.describe()} has no place in a snapshot: declare one of Types.…")


def has_default(field: dataclasses.Field[Any]) -> bool:
    """Whether a dataclass field has a value when none is given."""
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def type_from_json(document: TypeJson) -> t.TypeInformation:
    """The type of checked JSON. Nothing is imported: a dataclass becomes a row type of the same fields."""
    match document["type"]:
        case "basic":
            return _BASIC[document["name"]]
        case "tuple":
            names = document.get("names")
            fields = tuple(type_from_json(f) for f in document["fields"])
            return t.TupleType(fields, tuple(names) if names is not None else None)
        case "row":
            names = document["names"]
            fields = tuple(type_from_json(f) for f in document["fields"])
            return t.RowType(fields, tuple(names) if names is not None else None)
        case "list":
            return t.ListType(type_from_json(document["element"]))
        case "map":
            return t.MapType(type_from_json(document["key"]), type_from_json(document["value"]))
        case "dataclass":
            fields = tuple(type_from_json(f["type"]) for f in document["fields"])
            return t.RowType(fields, tuple(f["name"] for f in document["fields"]))
    return t.PICKLED


def holds_pickled(document: TypeJson) -> bool:
    """Whether values of the type are pickled, as a whole or somewhere inside."""
    match document["type"]:
        case "tuple" | "row":
            return any(map(holds_pickled, document["fields"]))
        case "list":
            return holds_pickled(document["element"])
        case "map":
            return holds_pickled(document["key"]) or holds_pickled(document["value"])
        case "dataclass":
            return any(holds_pickled(f["type"]) for f in document["fields"])
    return bool(document["type"] == "pickled")


def compared(document: TypeJson) -> Callable[[Any], Any] | None:
    """What makes of a key that was read without its class the parts by which it is compared; None: it is all of it."""
    match document["type"]:
        case "tuple" | "row":
            parts = [compared(f) for f in document["fields"]]
            counts = [True] * len(parts)
        case "dataclass":
            parts = [compared(f["type"]) for f in document["fields"]]
            counts = [f.get("compared", True) for f in document["fields"]]
        case _:
            return None
    if all(counts) and not any(parts):
        return None

    def of(key: Any) -> Any:
        if key is None:
            return None
        kept = ((part, value) for part, value, counted in zip(parts, key, counts, strict=True) if counted)
        return tuple(value if part is None else part(value) for part, value in kept)

    return of


def describe_json(document: TypeJson) -> str:
    """Describes a stored type, with the names of dataclasses."""
    match document["type"]:
        case "tuple":
            return f"Tuple{len(document['fields'])}<{', '.join(map(describe_json, document['fields']))}>"
        case "row":
            names = document["names"] or [f"f{i}" for i in range(len(document["fields"]))]
            inner = (f"{n}: {describe_json(f)}" for n, f in zip(names, document["fields"], strict=True))
            return f"Row({', '.join(inner)})"
        case "list":
            return f"List<{describe_json(document['element'])}>"
        case "map":
            return f"Map<{describe_json(document['key'])}, {describe_json(document['value'])}>"
        case "dataclass":
            name = document["class"].partition(":")[2]
            inner = (f"{f['name']}: {describe_json(f['type'])}" for f in document["fields"])
            return f"{name}({', '.join(inner)})"
    return type_from_json(document).describe()


def check_type_json(node: JsonNode, level: int = 0) -> None:
    """Refuses JSON that is not a type, or one of more levels than whatever works with types can go down."""
    if level > _DEEPEST:
        raise node.error(f"is nested more than {_DEEPEST} levels deep")
    if not isinstance(node.value, dict) or not isinstance(node.value.get("type"), str):
        raise node.error("is not a type: it must be an object with the field 'type'")
    match node.value["type"]:
        case "basic":
            node.fields("type", "name")
            if node.field("name").text() not in _BASIC:
                name = node.value["name"]
                raise node.field("name").error(f"is '{name:.100}', and must be one of {', '.join(_BASIC)}")
        case "pickled":
            node.fields("type")
        case "tuple" | "row" as kind:
            if kind == "row":
                node.fields("type", "names", "fields")
            else:
                node.fields("type", "fields", optional=("names",))
            count = _check_fields(node, level)
            if not node.field("names").is_null():
                names = [item.text() for item in node.field("names").items()]
                if len(names) != count or len(set(names)) != count:
                    raise node.field("names").error(f"must hold {count} different names")
        case "list":
            node.fields("type", "element")
            check_type_json(node.field("element"), level + 1)
        case "map":
            node.fields("type", "key", "value")
            check_type_json(node.field("key"), level + 1)
            check_type_json(node.field("value"), level + 1)
        case "dataclass":
            _check_dataclass(node, level)
        case other:
            known = "basic, pickled, tuple, row, list, map, dataclass"
            raise node.field("type").error(f"is '{other:.100}', and must be one of {known}")


def _check_fields(node: JsonNode, level: int) -> int:
    items = list(node.field("fields").items())
    if not items:
        raise node.field("fields").error("is empty")
    for item in items:
        check_type_json(item, level + 1)
    return len(items)


def _check_dataclass(node: JsonNode, level: int) -> None:
    node.fields("type", "class", "fields")
    module, _, name = node.field("class").text().partition(":")
    if not module or not name:
        raise node.field("class").error("must be written module:Name")
    names = []
    for item in node.field("fields").items():
        item.fields("name", "type", optional=("has_default", "compared"))
        names.append(item.field("name").text())
        check_type_json(item.field("type"), level + 1)
        for flag in ("has_default", "compared"):
            if not item.field(flag).is_null():
                item.field(flag).boolean()
    if not names or len(set(names)) != len(names):
        raise node.field("fields").error("must hold one or more fields of different names")
