"""What kernels do. There are two implementations, which return the same: `native.py` in C, and `twin.py` with NumPy.

Any thread may call any function of `Kernels`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Hashes = npt.NDArray[np.uint64]


class Kernels(Protocol):
    """The kernels of one implementation."""

    name: str
    """Of the implementation: `native` or `numpy`."""

    def hash_integers(self, column: Any) -> Hashes:
        """The hashes of an Arrow array of integers, as `stable_hash` has them. Those of nulls are undefined.

        Unsigned integers above 2**63 - 1 hash as the negative numbers with the same bits.
        """
        ...

    def hash_texts(self, column: Any, tag: int) -> Hashes:
        """The hashes of an Arrow array of (large) strings or binaries. Those of nulls are undefined.

        `tag` distinguishes the types.
        """
        ...

    def hash_encoded(self, known: Hashes, indices: Any) -> Hashes:
        """The hash at each index, which an Arrow array of integers holds. Those of nulls are undefined.

        Raises a ValueError when an index is outside of `known`.
        """
        ...

    def hash_nulls(self, column: Any, null: int, hashes: Hashes) -> Hashes:
        """Returns the hashes of an Arrow array with `null` for its nulls. It may write to `hashes`."""
        ...

    def hash_composite(self, fields: list[Hashes]) -> Hashes:
        """The hashes of composite keys, from those of their fields, which are at least one."""
        ...
