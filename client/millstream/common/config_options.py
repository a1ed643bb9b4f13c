"""Typed options that a program defines, with PyFlink's names: `ConfigOptions.key("rate").int_type().default_value(5)`.

`Configuration.get(option)` and `.set(option, value)` accept an option in place of its key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class ConfigOption(Struct, Generic[T], frozen=True):
    """An option: its key, the parser of its text, and its default value."""

    key: str
    parse: Callable[[str], T]
    default: T | None = None


class TypedConfigOptionBuilder(Struct, Generic[T], frozen=True):
    """Creates an option of a given type, with or without a default value."""

    key: str
    parse: Callable[[str], T]

    def default_value(self, value: T) -> ConfigOption[T]:
        """Returns the option with the default `value`."""
        return ConfigOption(self.key, self.parse, value)

    def no_default_value(self) -> ConfigOption[T]:
        """Returns the option without a default value: it is None if it is not set."""
        return ConfigOption(self.key, self.parse)


class OptionBuilder(Struct, frozen=True):
    """Sets the type of an option."""

    key: str

    def boolean_type(self) -> TypedConfigOptionBuilder[bool]:
        """Returns a builder for a boolean option."""
        return TypedConfigOptionBuilder(self.key, lambda text: text.strip().lower() == "true")

    def int_type(self) -> TypedConfigOptionBuilder[int]:
        """Returns a builder for an integer option."""
        return TypedConfigOptionBuilder(self.key, int)

    def long_type(self) -> TypedConfigOptionBuilder[int]:
        """Returns a builder for an integer option."""
        return TypedConfigOptionBuilder(self.key, int)

    def float_type(self) -> TypedConfigOptionBuilder[float]:
        """Returns a builder for a floating-point option."""
        return TypedConfigOptionBuilder(self.key, float)

    def double_type(self) -> TypedConfigOptionBuilder[float]:
        """Returns a builder for a floating-point option."""
        return TypedConfigOptionBuilder(self.key, float)

    def string_type(self) -> TypedConfigOptionBuilder[str]:
        """Returns a builder for a text option."""
        return TypedConfigOptionBuilder(self.key, str)


class ConfigOptions:
    """The entry point to the definition of an option."""

    @staticmethod
    def key(key: str) -> OptionBuilder:
        """Returns a builder for the option `key`."""
        return OptionBuilder(key)
