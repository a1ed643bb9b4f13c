"""`spark_history.py FOLDER KEYS ...`: history as Parquet, for each number of keys: each once, in no order."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from marks import report

_FILES = 4
_ROWS_PER_GROUP = 256 * 1024
_MULTIPLIER, _MODULUS, _SHIFT = 0x9E3779B97F4A7C15, 2**64, 44


def value_of(key: int) -> int:
    """The value of a key: 20 pseudo-random bits."""
    return key * _MULTIPLIER % _MODULUS >> _SHIFT


def main(folder: str, *counts: str) -> None:
    """Reports the sum of the values for each number of keys."""
    for count in map(int, counts):
        keys = np.random.default_rng(count).permutation(count)
        values = (keys.astype(np.uint64) * np.uint64(_MULTIPLIER) >> np.uint64(_SHIFT)).astype(np.int64)
        target = Path(folder, f"history-{count}")
        target.mkdir()
        for number, (some, theirs) in enumerate(
            zip(np.array_split(keys, _FILES), np.array_split(values, _FILES), strict=True)
        ):
            table = pa.table({"key": some, "value": theirs})
            pq.write_table(table, target / f"{number}.parquet", row_group_size=_ROWS_PER_GROUP)
        report("history", keys=count, path=str(target), total=int(values.sum()))


if __name__ == "__main__":
    main(*sys.argv[1:])
