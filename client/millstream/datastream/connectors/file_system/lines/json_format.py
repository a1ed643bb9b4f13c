"""JSON lines: a record for each line, as plain dicts and lists, or as the declared type."""

from __future__ import annotations

import typing
from collections.abc import Callable
from types import NoneType
from typing import Any, TypedDict

import msgspec

from millstream.core.overriding import override
from millstream.core.records.types import (
    PICKLED,
    ListType,
    MapType,
    RowType,
    TupleType,
    TypeInformation,
    from_hint,
    nullable,
)
from millstream.core.row import Row
from millstream.datastream.connectors.file_system.lines.line_format import LineFormatReader
from millstream.datastream.connectors.file_system.lines.lines import checked_length, cut_lines
from millstream.datastream.connectors.file_system.lines.text_format import StreamFormat
from millstream.datastream.connectors.file_system.paths import FoundFile
from millstream.datastream.connectors.file_system.splits import FileSplit, FormatReader
from millstream.datastream.connectors.malformed import LONGEST_LINE


class JsonLinesFormat(StreamFormat):
    """One JSON value a line; empty lines are passed over. A field that the declared type lacks is dropped."""

    def __init__(self, type_info: Any = PICKLED, max_line_length: int = LONGEST_LINE) -> None:
        self._type = from_hint(type_info)
        self._is_optional = NoneType in typing.get_args(type_info)
        self._longest = checked_length(max_line_length)

    def cut(self, file: FoundFile, block_size: int) -> list[FileSplit]:
        """Byte ranges."""
        return cut_lines(file, block_size)

    @override
    def open(self, split: FileSplit) -> FormatReader:
        return _JsonLines(split, self._type, self._is_optional, self._longest)

    @override
    def produced_type(self) -> TypeInformation:
        return self._type


class _JsonLines(LineFormatReader):
    def __init__(self, split: FileSplit, type: TypeInformation, is_optional: bool, longest: int) -> None:
        super().__init__(split, longest)
        self._expected = "" if type == PICKLED else f" of {type.describe()}"
        self._decode = json_decoder(type, is_optional)

    @override
    def decode(self, lines: list[bytes]) -> list[Any]:
        decode = self._decode
        return [decode(line) for line in lines if line and not line.isspace()]

    def reason(self, error: Exception) -> str | None:
        """What is wrong with the value, or with its type."""
        if isinstance(error, msgspec.DecodeError | UnicodeDecodeError | RecursionError):
            return f"not valid JSON{self._expected}: {error}"
        return None


def json_decoder(type: TypeInformation, is_optional: bool = False, all_fields: bool = False) -> Callable[[bytes], Any]:
    """What makes values of a type of JSON; with `all_fields`, each field of a row has to be there, if only as null."""
    kind = _json_type(type, all_fields)
    decode = msgspec.json.Decoder(nullable(kind) if is_optional else kind).decode
    finish = _finisher(type)
    return decode if finish is None else lambda line: finish(decode(line))


def _json_type(type: TypeInformation, all_fields: bool) -> Any:
    """What msgspec decodes and checks; rows are read as dicts first."""
    if isinstance(type, RowType):
        kinds = [nullable(_json_type(field, all_fields)) for field in type.fields]
        fields = dict(zip(type.field_names() or [], kinds, strict=True))
        return TypedDict("Row", fields, total=all_fields) | None  # type: ignore[operator]  # built at run time
    if isinstance(type, ListType):
        return list[nullable(_json_type(type.element, all_fields))] | None  # type: ignore[misc]  # built at run time
    if isinstance(type, MapType):
        return dict[_json_type(type.key, all_fields), nullable(_json_type(type.value, all_fields))] | None  # type: ignore[misc]  # built at run time
    if isinstance(type, TupleType):
        return tuple[tuple(nullable(_json_type(field, all_fields)) for field in type.fields)]  # type: ignore[misc]  # built at run time
    return type.wire_type() or Any


def _finisher(type: TypeInformation) -> Callable[[Any], Any] | None:
    """What makes rows of dicts, at any depth; None when there are none."""
    if isinstance(type, RowType):
        names = type.field_names() or []
        finishers = [_finisher(field) for field in type.fields]

        def finish(value: dict[str, Any] | None) -> Row | None:
            if value is None:
                return None
            fields = [value.get(name) for name in names]
            return Row.of_names(
                type.names, [f if inner is None else inner(f) for f, inner in zip(fields, finishers, strict=True)]
            )

        return finish
    if isinstance(type, TupleType):
        parts = [_finisher(field) or _same for field in type.fields]
        if all(part is _same for part in parts):
            return None
        return lambda value: None if value is None else tuple(p(v) for p, v in zip(parts, value, strict=True))
    if isinstance(type, ListType):
        element = _finisher(type.element)
        return None if element is None else lambda value: None if value is None else [element(v) for v in value]
    if isinstance(type, MapType):
        item = _finisher(type.value)
        return None if item is None else lambda value: None if value is None else {k: item(v) for k, v in value.items()}
    return None


def _same(value: Any) -> Any:
    return value
