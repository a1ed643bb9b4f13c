"""`TypeSerializer`: how values of a kind become bytes and come back, with PyFlink's name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import BinaryIO, Generic, TypeVar

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Has no state of its own between two calls: one serializer is used for any number of values and streams."""

    @abstractmethod
    def serialize(self, element: T, stream: BinaryIO, /) -> None:
        """Writes `element` to `stream`, so that `deserialize` can find its end."""

    @abstractmethod
    def deserialize(self, stream: BinaryIO, /) -> T:
        """Reads one value from `stream`, equal to the one that was written, and no byte behind it."""
