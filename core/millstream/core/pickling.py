"""Pickling by value: lambdas, local functions, and everything in the user's main script."""

from __future__ import annotations

import functools
import io
from typing import Any

_MSGSPEC_CACHE = "__msgspec_cache__"


def to_bytes(value: Any) -> bytes:
    """Pickles by value what the cluster cannot import: lambdas, local functions, everything in the main script."""
    file = io.BytesIO()
    _pickler_class()(file).dump(value)
    return file.getvalue()


@functools.cache
def _pickler_class() -> Any:
    """The pickler of cloudpickle, without what msgspec remembers in a dataclass: that cannot be pickled."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle is not typed
        def reducer_override(self, obj: Any) -> Any:
            reduced = super().reducer_override(obj)
            if isinstance(obj, type) and isinstance(reduced, tuple) and _MSGSPEC_CACHE in obj.__dict__:
                attributes, *_ = reduced[2]
                attributes.pop(_MSGSPEC_CACHE, None)
            return reduced

    return Pickler
