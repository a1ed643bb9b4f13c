"""How the functions of the native library are called: their signatures, addresses of buffers, and their errors."""

from __future__ import annotations

import ctypes
from typing import Any

_INVALID, _NO_MEMORY = -2, -1

OUTSIDE_OF_DATA = "an array's offsets are outside of its data"

_P, _I32, _I64, _U64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64

_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "mk_abi": (_I32, ()),
    "mk_start": (None, ()),
    "mk_hash_integers": (_I32, (_P, _I64, _I32, _I64, _I64, _P)),
    "mk_hash_texts": (_I32, (_P, _I64, _I32, _P, _I64, _I64, _I64, _U64, _P)),
    "mk_hash_encoded": (_I32, (_P, _I64, _P, _I64, _I32, _P, _I64, _I64, _I64, _P)),
    "mk_hash_nulls": (_I32, (_P, _I64, _I64, _I64, _U64, _P)),
    "mk_hash_fold": (_I32, (_P, _I64, _P)),
    "mk_index_new": (_P, (_U64, _I32)),
    "mk_index_free": (None, (_P,)),
    "mk_index_used": (None, (_P, _P)),
    "mk_index_count": (_I64, (_P,)),
    "mk_index_bound": (_I64, (_P,)),
    "mk_index_size": (_I64, (_P,)),
    "mk_int_slots": (_I32, (_P, _P, _I64, _P, _P, _P)),
    "mk_int_find": (_I32, (_P, _P, _I64, _P)),
    "mk_int_remove": (_I32, (_P, _P, _I64, _P)),
    "mk_int_keys": (_I32, (_P, _P, _I64, _P)),
    "mk_bytes_slots": (_I32, (_P, _P, _I64, _I32, _P, _I64, _I64, _I64, _P, _P, _P)),
    "mk_bytes_find": (_I32, (_P, _P, _I64, _I32, _P, _I64, _I64, _I64, _P)),
    "mk_bytes_remove": (_I32, (_P, _P, _I64, _I32, _P, _I64, _I64, _I64, _P)),
    "mk_bytes_lengths": (_I32, (_P, _P, _I64, _P)),
    "mk_bytes_keys": (None, (_P, _P, _I64, _P)),
    "mk_key_lengths": (_I32, (_P, _I64, _I64, _I64, _I64, _P)),
    "mk_key_text_lengths": (_I32, (_P, _I64, _I32, _P, _I64, _I64, _I64, _P, _I64, _P)),
    "mk_key_write": (_I32, (_P, _I64, _I64, _P, _I64, _I64, _P, _P)),
    "mk_key_write_texts": (None, (_P, _I64, _I32, _P, _I64, _I64, _I64, _P, _P, _P)),
}


def declare(library: ctypes.CDLL) -> None:
    """Declares all functions. Raises an AttributeError if one is missing."""
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result


def address(array: Any) -> int:
    """Of an array of NumPy."""
    found: int = array.__array_interface__["data"][0]
    return found


def buffer(buffer: Any) -> tuple[int | None, int]:
    """The address and size of a buffer of Arrow, or of none."""
    return (None, 0) if buffer is None else (buffer.address, buffer.size)


def text_buffers(column: Any) -> tuple[Any, ...]:
    """The arguments for an Arrow array of texts or binaries: offsets and their size, data and its, offset, length."""
    import pyarrow as pa

    _, offsets, data = column.buffers()
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    return *buffer(offsets), 8 if wide else 4, *buffer(data), column.offset, len(column)


def checked(code: int, problem: str) -> None:
    """Raises the error that a function has returned: a ValueError that names the problem, or a MemoryError."""
    if code == _NO_MEMORY:
        raise MemoryError("there is no memory for more keys of an index")
    if code == _INVALID:
        raise ValueError(problem)
