"""Ensures that a subtask writes only the key groups that it owns: state of other keys would never be found."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class ForeignKeyError(Exception):
    """State of a key that belongs to another subtask: it would be lost in a restore."""


def check_owned(
    owned: range, groups: npt.NDArray[np.integer[Any]] | Collection[int], keys: Iterable[Any] | None = None
) -> None:
    """Raises a ForeignKeyError unless the subtask owns all of the key groups, which are those of the keys, if given."""
    import numpy as np

    found = groups if isinstance(groups, np.ndarray) else np.fromiter(groups, np.int32, len(groups))
    if not len(found) or (found.min() in owned and found.max() in owned):
        return
    position = int(((found < owned.start) | (found >= owned.stop)).argmax())
    what = "a key" if keys is None else f"the key {next(islice(keys, position, None))!r:.200}"
    raise ForeignKeyError(
        f"it holds {what} of key group {found[position]}, and this subtask has the key groups {owned.start} to "
        f"{owned.stop - 1}: the key selector has to return the same key for a record each time, and nothing may change "
        "a key afterwards"
    )
