"""The columns that a user declares for a file: as a row type, as a dataclass, or as a schema of Arrow's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.core.errors import InvalidProgramError
from millstream.core.records.conversion import arrow_schema
from millstream.core.records.types import PICKLED, TypeInformation, from_hint

if TYPE_CHECKING:
    import pyarrow as pa


def declared_columns(declared: Any, what: str) -> tuple[pa.Schema | None, TypeInformation]:
    """The Arrow schema, None when it depends on the values, and the type of the records: unknown for a mere schema."""
    type_info = from_hint(declared) if isinstance(declared, TypeInformation | type) else PICKLED
    if type_info.field_names() is not None:
        return arrow_schema(type_info), type_info
    if hasattr(declared, "names") and hasattr(declared, "field"):
        return declared, PICKLED
    raise InvalidProgramError(
        f"{what} must be a type with fields (Types.ROW_NAMED(...), a dataclass) or a pyarrow schema, got {declared!r}"
    )
