"""How tests compress, by the end of a file's name."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable

import pyarrow as pa


def _zstandard(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".gzip": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".deflate": zlib.compress,
    ".zst": _zstandard,
}
