"""The hashes of a column of keys as state files have it: the same as those of the Python values, without a loop.

In such a column big integers and decimals are text, and a time in some zone is a struct. Of a dataclass only the fields
count by which its instances are compared. What columns do not say by themselves is read as Python values first.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from millstream.core.keys.key_groups import combine_hashes, hashed_nulls, stable_hash, stable_hash_column
from millstream.core.keys.key_values import hashable
from millstream.core.records import types as t
from millstream.core.snapshot.metadata.model import TypeJson
from millstream.core.snapshot.metadata.types_json import type_from_json
from millstream.core.snapshot.tables.columns import from_array

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_AS_TEXT = (t.BIG_INT, t.BIG_DEC)


def key_hashes(array: pa.Array, type: TypeJson, *, unpickle: bool = False) -> npt.NDArray[np.uint64]:
    """The hashes of stored keys of a type. Pickled ones are loaded only when the caller requests it."""
    import numpy as np
    import pyarrow as pa

    match type["type"]:
        case "tuple" | "row" | "dataclass" if pa.types.is_struct(array.type):
            names = [field.name for field in array.type]
            children = dict(zip(names, array.flatten(), strict=True))
            counting = [(name, inner) for name, inner, counts in _fields(type) if counts]
            hashed = [key_hashes(children[name], inner, unpickle=unpickle) for name, inner in counting]
            return hashed_nulls(array, combine_hashes(hashed) if hashed else np.zeros(len(array), np.uint64))
        case "basic":
            kind = type_from_json(type)
            zoned = isinstance(kind, t.BasicType) and kind.python_type is datetime.datetime
            if kind not in _AS_TEXT and not (zoned and pa.types.is_struct(array.type)):
                return stable_hash_column(array)
    different, places = array, None
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        encoded = array.dictionary_encode()
        different, places = encoded.dictionary, encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    values = from_array(different, type_from_json(type), "key", unpickle=unpickle)
    hashes = np.fromiter((stable_hash(hashable(value)) for value in values), np.uint64, len(values))
    if places is not None:
        hashes = hashes[places] if len(hashes) else np.zeros(len(array), np.uint64)
    return hashed_nulls(array, hashes)


def _fields(type: TypeJson) -> list[tuple[str, TypeJson, bool]]:
    """Names, types, and whether they count."""
    if type["type"] == "dataclass":
        return [(f["name"], f["type"], f.get("compared", True)) for f in type["fields"]]
    names = type.get("names") or [f"f{i}" for i in range(len(type["fields"]))]
    return [(name, inner, True) for name, inner in zip(names, type["fields"], strict=True)]
