"""Whether streams of two types can be one stream. Pure."""

from __future__ import annotations

from millstream.core.records.types import PICKLED, ListType, MapType, RowType, TupleType, TypeInformation


def may_be_united(first: TypeInformation, other: TypeInformation) -> bool:
    """Whether the types are the same, as far as both are declared. Names of fields are no part of that, as in Flink."""
    if PICKLED in (first, other):
        return True
    match first, other:
        case (TupleType(ours), TupleType(theirs)) | (RowType(ours), RowType(theirs)):
            return len(ours) == len(theirs) and all(map(may_be_united, ours, theirs))
        case ListType(our), ListType(their):
            return may_be_united(our, their)
        case MapType(our_key, our_value), MapType(their_key, their_value):
            return may_be_united(our_key, their_key) and may_be_united(our_value, their_value)
        case _:
            return first == other
