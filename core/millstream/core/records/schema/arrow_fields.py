"""Fields and schemas of Arrow, from which the very same types are read again.

Arrow's own flag says whether a field may be NULL. Where the type is more than the column and the flag say, the
field's metadata has it in words, as `millstream.type`: the length of a text, the digits of a second, an interval, a
multiset, whether a map's key may be NULL. The outermost NOT NULL is left to the flag. The words hold for all levels
inside, since computing with nested columns loses the metadata there. They count only if the column is one of that
type: a column that was cast since then with its metadata left on it is refused. A description is
`millstream.description`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.core.records.schema.arrow_types import to_arrow_type
from millstream.core.records.schema.errors import InvalidTypeError
from millstream.core.records.schema.from_arrow import from_arrow_type
from millstream.core.records.schema.logical_type import LogicalType
from millstream.core.records.schema.nested_types import Field
from millstream.core.records.schema.parsing import parse_type
from millstream.core.records.schema.schema import Schema
from millstream.core.records.schema.writing import serializable_string

if TYPE_CHECKING:
    import pyarrow as pa

TYPE = b"millstream.type"
DESCRIPTION = b"millstream.description"


def to_arrow_schema(schema: Schema) -> pa.Schema:
    """Returns the schema of Arrow record batches of these columns."""
    import pyarrow as pa

    return pa.schema([to_arrow_field(field) for field in schema])


def from_arrow_schema(schema: pa.Schema) -> Schema:
    """Returns the schema of Arrow record batches: exactly what was given to `to_arrow_schema`."""
    return Schema(tuple(from_arrow_field(field) for field in schema))


def to_arrow_field(field: Field) -> pa.Field:
    """Returns the field of Arrow, with what Arrow cannot say in its metadata."""
    import pyarrow as pa

    arrow, type = to_arrow_type(field.type), field.type.with_nullable(True)
    metadata = {} if from_arrow_type(arrow) == type else {TYPE: serializable_string(type).encode()}
    if field.description is not None:
        metadata[DESCRIPTION] = field.description.encode()
    return pa.field(field.name, arrow, nullable=field.nullable, metadata=metadata or None)


def from_arrow_field(field: pa.Field) -> Field:
    """Returns the field; raises `InvalidTypeError` if no type stands for it, or its metadata has another one."""
    metadata = field.metadata or {}
    description = metadata.get(DESCRIPTION)
    try:
        type = _type(field.type, metadata.get(TYPE)).with_nullable(field.nullable)
        return Field(field.name, type, description=None if description is None else description.decode())
    except (InvalidTypeError, UnicodeDecodeError) as error:
        raise InvalidTypeError(f"The field '{field.name}' of Arrow: {error}") from error


def _type(arrow: pa.DataType, words: bytes | None) -> LogicalType:
    own = from_arrow_type(arrow)
    if words is None:
        return own
    type = parse_type(words.decode())
    if _unflagged(to_arrow_type(type)) != _unflagged(to_arrow_type(own)):
        raise InvalidTypeError(
            f"its metadata '{TYPE.decode()}' says {serializable_string(type)}, which is a column of "
            f"{to_arrow_type(type)}, and it is one of {arrow}: remove the metadata, or cast the column"
        )
    return type


def _unflagged(arrow: pa.DataType) -> pa.DataType:
    """The same with NULL allowed at all levels: other tools lose the flags inside, which the words have as well."""
    import pyarrow as pa

    if pa.types.is_list(arrow):
        return pa.list_(_unflagged(arrow.value_type))
    if pa.types.is_map(arrow):
        return pa.map_(_unflagged(arrow.key_type), _unflagged(arrow.item_type))
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(f.name, _unflagged(f.type)) for f in arrow])
    return arrow
