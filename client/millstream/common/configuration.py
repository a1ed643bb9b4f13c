"""`Configuration` with PyFlink's methods, over the checked options of `millstream.core.settings.configuration`.

Keys and values are checked when they are set: an unknown key is an error that names the nearest known one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.core.errors import ConfigurationError
from millstream.core.settings import configuration as core
from millstream.core.settings.options import OPTIONS


class Configuration(core.Configuration):
    """Options for a program. Setters answer the configuration itself, so that calls can be chained."""

    def __init__(self, other: core.Configuration | Mapping[str, Any] | None = None) -> None:
        super().__init__(other.to_dict() if isinstance(other, core.Configuration) else other)

    def get(self, key: str, default_value: Any = None) -> Any:
        """What was set, else `default_value`, else the option's default."""
        if key not in OPTIONS:
            raise ConfigurationError(f"unknown option '{key}'")
        if self.is_set(key) or default_value is None:
            return super().get(key)
        return default_value

    def get_string(self, key: str, default_value: str | None = None) -> str:
        """The option as text, in the way it was written."""
        return self._raw[key] if key in self._raw else str(self.get(key, default_value))

    def set_string(self, key: str, value: str) -> Configuration:
        """Sets any option from text."""
        self.set(key, value)
        return self

    def get_integer(self, key: str, default_value: int | None = None) -> int:
        """A whole number, or a memory size in bytes."""
        return int(self._typed(key, self.get(key, default_value), (int,), "a whole number"))

    def set_integer(self, key: str, value: int) -> Configuration:
        """Sets an option that is a whole number."""
        self.set(key, value)
        return self

    def get_boolean(self, key: str, default_value: bool | None = None) -> bool:
        """True or false."""
        return bool(self._typed(key, self.get(key, default_value), (bool,), "true or false"))

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Sets an option that is true or false."""
        self.set(key, value)
        return self

    def get_float(self, key: str, default_value: float | None = None) -> float:
        """A number; a duration in seconds."""
        return float(self._typed(key, self.get(key, default_value), (int, float), "a number"))

    def set_float(self, key: str, value: float) -> Configuration:
        """Sets an option that is a number."""
        self.set(key, value)
        return self

    def contains_key(self, key: str) -> bool:
        """Whether the option was set."""
        return self.is_set(key)

    def key_set(self) -> set[str]:
        """The options that were set."""
        return set(self._raw)

    def add_all(self, other: core.Configuration | Mapping[str, Any], prefix: str | None = None) -> None:
        """Sets everything that the other has set, below `prefix` when one is given."""
        values = other.to_dict() if isinstance(other, core.Configuration) else other
        for key, value in values.items():
            self.set(f"{prefix or ''}{key}", value)

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Adds what was set to a dict, as text."""
        target_dict.update(self._raw)

    def remove_config(self, key: str) -> bool:
        """Takes an option back to its default; whether it was set."""
        self._parsed.pop(key, None)
        return self._raw.pop(key, None) is not None

    @staticmethod
    def _typed(key: str, value: Any, kinds: tuple[type, ...], wanted: str) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ConfigurationError(f"option '{key}' is {value!r}, not {wanted}")
        return value
