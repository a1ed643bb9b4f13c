"""`TypeSerializer`: serialization of the values of a type, with PyFlink's name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import BinaryIO, Generic, TypeVar

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Serializes the values of a type. Serializers have no state between calls: one is used for many streams."""

    @abstractmethod
    def serialize(self, element: T, stream: BinaryIO, /) -> None:
        """Writes `element` to `stream`, in a form from which `deserialize` recognizes its end."""

    @abstractmethod
    def deserialize(self, stream: BinaryIO, /) -> T:
        """Reads one value from `stream` and returns it. Must not read any bytes after the value."""
