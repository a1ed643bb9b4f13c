"""Types as recipes write them: `str`, `list[tuple[str, int]]`, `row[name: str, visits: int]`, `Long`, `package.Class`.

The words are Python's, and those that `millstream state ls` shows. Nothing is evaluated: a dotted name is imported, and
has to be a class.
"""

from __future__ import annotations

import ast
import datetime
import decimal
import importlib
from typing import Any

from millstream.core.errors import InvalidProgramError
from millstream.core.records import types as t
from millstream.spark.recipes.document import RecipeNode, did_you_mean

_HINTS: dict[str, Any] = {
    "str": str, "int": int, "float": float, "bool": bool, "bytes": bytes, "Decimal": decimal.Decimal,
    "date": datetime.date, "time": datetime.time, "datetime": datetime.datetime,
}  # fmt: skip
_NAMES: dict[str, t.TypeInformation] = {
    **{name: t.from_hint(hint) for name, hint in _HINTS.items()},
    **{
        kind.name: kind
        for kind in (
            t.STRING, t.BOOLEAN, t.BYTE, t.SHORT, t.INT, t.LONG, t.FLOAT, t.DOUBLE, t.BIG_INT, t.BIG_DEC, t.BYTES,
            t.INSTANT, t.DATE, t.TIME, t.TIMESTAMP,
        )
    },
    "object": t.PICKLED,
}  # fmt: skip
_GENERIC = ("list", "dict", "tuple", "row")


class _Unreadable(Exception):
    """Why a text is no type."""


def type_of(node: RecipeNode) -> t.TypeInformation:
    """The type that a recipe names."""
    text = node.text()
    try:
        return _type(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError:
        reason = "is no type"
    except _Unreadable as error:
        reason = f"is no type: {error}"
    raise node.error(f"'{text}' {reason}; write one as in str, list[int], tuple[str, int] or row[name: str, n: int]")


def _type(node: ast.expr) -> t.TypeInformation:
    match node:
        case ast.Name(name) if name in _NAMES:
            return _NAMES[name]
        case ast.Name(name) if name in _GENERIC:
            raise _Unreadable(f"'{name}' needs what is in it")
        case ast.Name(name):
            raise _Unreadable(f"'{name}' is not known{did_you_mean(name, (*_NAMES, *_GENERIC))}")
        case ast.Attribute():
            return _class(ast.unparse(node))
        case ast.Subscript(ast.Name("list"), inner):
            return t.ListType(_type(inner))
        case ast.Subscript(ast.Name("dict"), ast.Tuple([key, value])):
            return t.MapType(_type(key), _type(value))
        case ast.Subscript(ast.Name("tuple"), inner):
            return t.TupleType(tuple(map(_type, _parts(inner))))
        case ast.Subscript(ast.Name("row"), inner):
            return _row(_parts(inner))
    raise _Unreadable(f"'{ast.unparse(node)}' is not understood")


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _row(parts: list[ast.expr]) -> t.TypeInformation:
    names, fields = [], []
    for part in parts:
        match part:
            case ast.Slice(ast.Name(name), ast.expr() as kind, None):
                names.append(name)
                fields.append(_type(kind))
            case _:
                raise _Unreadable("the fields of a row are written as name: type")
    if len(set(names)) != len(names):
        raise _Unreadable("a row has two fields of one name")
    return t.RowType(tuple(fields), tuple(names))


def _class(name: str) -> t.TypeInformation:
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise _Unreadable(f"'{name}' cannot be imported: {error}") from error
    if not isinstance(found, type):
        raise _Unreadable(f"'{name}' is not a class")
    try:
        return t.from_hint(found)
    except InvalidProgramError as error:
        raise _Unreadable(str(error)) from error
