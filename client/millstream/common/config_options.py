"""Options of a program's own, described: `ConfigOptions.key("rate").int_type().default_value(5)`, with PyFlink's names.

`Configuration.get(option)` and `.set(option, value)` take one in place of its key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class ConfigOption(Struct, Generic[T], frozen=True):
    """A key, what its text becomes, and the value that holds where nothing is set."""

    key: str
    parse: Callable[[str], T]
    default: T | None = None


class TypedConfigOptionBuilder(Struct, Generic[T], frozen=True):
    """Knows the type, and asks for a default."""

    key: str
    parse: Callable[[str], T]

    def default_value(self, value: T) -> ConfigOption[T]:
        """The option, with a value for where nothing is set."""
        return ConfigOption(self.key, self.parse, value)

    def no_default_value(self) -> ConfigOption[T]:
        """The option, which is None where nothing is set."""
        return ConfigOption(self.key, self.parse)


class OptionBuilder(Struct, frozen=True):
    """Asks for the type."""

    key: str

    def boolean_type(self) -> TypedConfigOptionBuilder[bool]:
        """True or false."""
        return TypedConfigOptionBuilder(self.key, lambda text: text.strip().lower() == "true")

    def int_type(self) -> TypedConfigOptionBuilder[int]:
        """A whole number."""
        return TypedConfigOptionBuilder(self.key, int)

    def long_type(self) -> TypedConfigOptionBuilder[int]:
        """A whole number."""
        return TypedConfigOptionBuilder(self.key, int)

    def float_type(self) -> TypedConfigOptionBuilder[float]:
        """A number."""
        return TypedConfigOptionBuilder(self.key, float)

    def double_type(self) -> TypedConfigOptionBuilder[float]:
        """A number."""
        return TypedConfigOptionBuilder(self.key, float)

    def string_type(self) -> TypedConfigOptionBuilder[str]:
        """Text."""
        return TypedConfigOptionBuilder(self.key, str)


class ConfigOptions:
    """Begins the description of an option."""

    @staticmethod
    def key(key: str) -> OptionBuilder:
        """Of the option of this key."""
        return OptionBuilder(key)
