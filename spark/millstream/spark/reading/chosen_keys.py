"""Keys that a caller chose: as the text of an option, and as a choice among the rows of a state.

The runtime's own hash gives the key groups they are in, so that only their files and row groups are read; of these,
rows with the hash of a chosen key are compared with it as Python values, as the runtime compares keys.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from millstream.core.records.conversion import ConversionError
from millstream.core.snapshot.metadata.model import TypeJson
from millstream.core.snapshot.metadata.types_json import compared, holds_pickled, type_from_json
from millstream.core.snapshot.tables.columns import from_array, to_array
from millstream.core.snapshot.tables.key_columns import key_hashes
from millstream.core.snapshot.tables.restore import frozen
from millstream.core.snapshot.tables.table import KEY
from millstream.spark.reading.key_filters import ranges_of
from millstream.spark.reading.states import OpenState

if TYPE_CHECKING:
    import pyarrow as pa


def keys_as_text(keys: Iterable[Any], state: OpenState) -> str:
    """The keys as the option of the data source has them. Refuses those that are not of the state's type."""
    import pyarrow as pa

    type = _key_type(state)
    try:
        column = to_array(list(keys), type_from_json(type), KEY)
    except ConversionError as error:
        raise state.refused(f"has other keys than those that were chosen: {error}") from error
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([(KEY, column.type)])) as writer:
        writer.write_batch(pa.record_batch([column], [KEY]))
    return base64.b64encode(sink.getvalue()).decode()


class ChosenKeys:
    """The rows of some keys. Made in the driver, and copied to where rows are read."""

    def __init__(self, text: str, state: OpenState) -> None:
        import numpy as np
        import pyarrow as pa

        self._type = _key_type(state)
        try:
            with pa.ipc.open_stream(base64.b64decode(text, validate=True)) as reader:
                column = reader.read_all().column(KEY).combine_chunks()
        except (binascii.Error, pa.ArrowException, OSError, KeyError) as error:
            raise ValueError(text) from error
        self._hashes = np.unique(key_hashes(column, self._type))
        self._keys = set(self._compared(column))
        groups = np.unique(self._hashes % np.uint64(state.max_parallelism))
        self.key_groups = ranges_of(groups.tolist())

    def rows(self, table: pa.Table) -> pa.Table:
        """Those of a table that has the column of the keys."""
        import numpy as np
        import pyarrow as pa

        hashes = key_hashes(table.column(KEY).combine_chunks(), self._type)
        found = table.take(pa.array(np.flatnonzero(np.isin(hashes, self._hashes))))
        same = [key in self._keys for key in self._compared(found.column(KEY).combine_chunks())]
        return found.filter(pa.array(same, pa.bool_()))

    def _compared(self, column: pa.Array) -> list[Any]:
        part = compared(self._type)
        keys = from_array(column, type_from_json(self._type), KEY)
        return [frozen(key if part is None else part(key)) for key in keys]


def _key_type(state: OpenState) -> TypeJson:
    type = state.state.key_type
    if not state.state.kind.keyed or type is None:
        raise state.refused("is not by key: leave out the choice of keys")
    if holds_pickled(type):
        raise state.refused("has pickled keys, which are not loaded: choose key groups, and filter what is read")
    return type
