"""The Python classes of the values of Arrow's types, and whether a cast preserves values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def in_microseconds(column: pa.Array) -> pa.Array:
    """Returns the column without the nanoseconds of times, which Python's classes cannot represent."""
    import pyarrow as pa

    kind = column.type
    if getattr(kind, "unit", None) != "ns":
        return column
    if pa.types.is_timestamp(kind):
        coarser = pa.timestamp("us", kind.tz)
    else:
        coarser = pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us")
    return column.cast(coarser, safe=False)


def value_kind(arrow_type: Any) -> str | None:
    """Returns the Python class of the values; None for nested types, which are never cast."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(arrow_type):
        return value_kind(arrow_type.value_type)
    for name, test in (
        ("bool", types.is_boolean), ("int", types.is_integer), ("float", types.is_floating),
        ("decimal", types.is_decimal), ("timestamp", types.is_timestamp), ("date", types.is_date),
        ("time", types.is_time), ("duration", types.is_duration), ("null", types.is_null),
    ):  # fmt: skip
        if test(arrow_type):
            return name
    text = ("string", "large_string", "string_view")
    binary = ("binary", "large_binary", "binary_view")
    return "str" if str(arrow_type) in text else "bytes" if str(arrow_type) in binary else None


def keeps_values(found: Any, wanted: Any, *, zones: bool = True) -> bool:
    """Whether a column cast from one Arrow type to another still holds the same values, if the cast succeeds.

    Without `zones`, another time zone of the same moments counts as the same.
    """
    import pyarrow as pa

    types = pa.types
    kind, other = value_kind(found), value_kind(wanted)
    if types.is_timestamp(found) and types.is_timestamp(wanted):
        return found.tz == wanted.tz or (not zones and None not in (found.tz, wanted.tz))
    if kind is not None or other is not None:
        return kind == "null" or kind == other or (kind == "int" and other in ("float", "decimal"))
    if types.is_struct(found) and types.is_struct(wanted):
        names = {field.name for field in found}
        return all(f.name not in names or keeps_values(found.field(f.name).type, f.type, zones=zones) for f in wanted)
    if types.is_map(found) and types.is_map(wanted):
        return keeps_values(found.key_type, wanted.key_type, zones=zones) and keeps_values(
            found.item_type, wanted.item_type, zones=zones
        )
    if hasattr(found, "value_type") and hasattr(wanted, "value_type"):
        return keeps_values(found.value_type, wanted.value_type, zones=zones)
    return True
