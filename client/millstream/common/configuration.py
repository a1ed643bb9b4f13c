"""`Configuration` with PyFlink's methods, over the validated options of `millstream.core.settings.configuration`.

Keys and values are validated when they are set. An unknown key in a namespace of Flink or Millstream is an error that
names the nearest known key. Any other key is the program's own: it has any value, and functions read it as a job
parameter.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any, TypeVar, overload

from millstream.common.config_options import ConfigOption
from millstream.core.errors import ConfigurationError
from millstream.core.overriding import override
from millstream.core.settings import configuration as core
from millstream.core.settings.options import OPTIONS, OptionKey
from millstream.core.settings.own_keys import why_unknown
from millstream.core.settings.secrets import shown_options

T = TypeVar("T")


class Configuration(core.Configuration):
    """The options of a program. The typed setters return the configuration itself, so that calls can be chained."""

    def __init__(self, other: core.Configuration | Mapping[str, Any] | None = None) -> None:
        super().__init__()
        if other is not None:
            self.add_all(other)

    @staticmethod
    def from_dict(map: Mapping[str, Any]) -> Configuration:
        """Returns a configuration with the options of the dict `map`."""
        return Configuration(map)

    @override
    def set(self, key: str | ConfigOption[Any], value: Any) -> None:
        key = key.key if isinstance(key, ConfigOption) else key
        if isinstance(value, bytes | bytearray):
            import base64

            super().set(key, base64.b64encode(value).decode())
        else:
            super().set(key, value)
        if key in self._parsed and key not in OPTIONS:
            self._parsed[key] = value

    @overload
    def get(self, key: OptionKey[T]) -> T: ...

    @overload
    def get(self, key: str | ConfigOption[Any], default_value: Any = None) -> Any: ...

    @override
    def get(self, key: str | ConfigOption[Any], default_value: Any = None) -> Any:
        if isinstance(key, ConfigOption):
            value = self.get(key.key, key.default if default_value is None else default_value)
            return value if key.key in OPTIONS or not isinstance(value, str) else key.parse(value)
        if key not in OPTIONS and key not in self._raw and (why := why_unknown(key)) is not None:
            raise ConfigurationError(why)
        if self.is_set(key) or default_value is None:
            return self.value(key)
        return default_value

    def get_string(self, key: str, default_value: str | None = None) -> str:
        """Returns the value of `key` as the text that was set; `default_value` if it is not set."""
        return self._raw[key] if key in self._raw else str(self.get(key, default_value))

    def set_string(self, key: str, value: str) -> Configuration:
        """Sets `key` to the text `value`; returns this configuration.

        Raises `ConfigurationError` if the value is not valid for the option.

            configuration.set_string("execution.checkpointing.interval", "10 s")
        """
        self.set(key, value)
        return self

    def get_integer(self, key: str, default_value: int | None = None) -> int:
        """Returns the value of `key` as an integer, a memory size in bytes; `default_value` if it is not set."""
        return int(self._typed(key, default_value, int, (int,), "a whole number"))

    def set_integer(self, key: str, value: int) -> Configuration:
        """Sets `key` to the integer `value`; returns this configuration."""
        self.set(key, value)
        return self

    def get_boolean(self, key: str, default_value: bool | None = None) -> bool:
        """Returns the value of `key` as a boolean; `default_value` if it is not set."""
        return bool(self._typed(key, default_value, _as_bool, (bool,), "true or false"))

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Sets `key` to the boolean `value`; returns this configuration."""
        self.set(key, value)
        return self

    def get_float(self, key: str, default_value: float | None = None) -> float:
        """Returns the value of `key` as a number, a duration in seconds; `default_value` if it is not set."""
        return float(self._typed(key, default_value, float, (int, float), "a number"))

    def set_float(self, key: str, value: float) -> Configuration:
        """Sets `key` to the number `value`; returns this configuration."""
        self.set(key, value)
        return self

    def get_bytearray(self, key: str, default_value: bytearray | None = None) -> bytearray:
        """Returns the bytes of `key`, one of the program's own keys, or `default_value`; as text they are in Base64."""
        return bytearray(self._typed(key, default_value, _as_bytes, (bytes, bytearray), "bytes in Base64"))

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        """Sets `key`, one of the program's own keys, to the bytes `value`; returns this configuration.

        Raises `ConfigurationError` if the key is an option of Flink or Millstream.
        """
        if key in OPTIONS:
            raise ConfigurationError(f"option '{key}' holds no bytes")
        self.set(key, value)
        return self

    def contains_key(self, key: str) -> bool:
        """Returns whether the option `key` is set."""
        return self.is_set(key)

    def key_set(self) -> builtins.set[str]:
        """Returns the keys of the options that are set."""
        return {*self._raw}

    def add_all(self, other: core.Configuration | Mapping[str, Any], prefix: str | None = None) -> None:
        """Sets all options that are set in `other`, with `prefix` in front of their keys if it is given."""
        values: Mapping[str, Any] = other if isinstance(other, Mapping) else other.to_dict()
        if isinstance(other, Configuration):
            other.add_all_to_dict(own := dict(values))
            values = own
        for key, value in values.items():
            self.set(f"{prefix or ''}{key}", value)

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Adds all options that are set to `target_dict`: options as text, the program's own keys with their values."""
        target_dict.update({key: text if key in OPTIONS else self._parsed[key] for key, text in self._raw.items()})

    def remove_config(self, key: str) -> bool:
        """Resets the option `key` to its default; returns whether it was set."""
        self._parsed.pop(key, None)
        return self._raw.pop(key, None) is not None

    @staticmethod
    def parse_list_value(value: str | None, is_standard_yaml: bool = True) -> list[str]:
        """Returns the parts of `value`, a list in YAML (`is_standard_yaml`) or with semicolons between its parts."""
        if not value:
            return []
        if is_standard_yaml:
            import yaml

            parsed = yaml.safe_load(value)
            if isinstance(parsed, list):
                return [str(part) for part in parsed]
        return value.split(";")

    def _typed(self, key: str, default: Any, parse: Any, kinds: tuple[type, ...], wanted: str) -> Any:
        value = self.get(key, default)
        if key not in OPTIONS and isinstance(value, str):
            try:
                value = parse(value)
            except ValueError:
                raise ConfigurationError(f"option '{key}' is {value!r}, not {wanted}") from None
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ConfigurationError(f"option '{key}' is {value!r}, not {wanted}")
        return value

    def __str__(self) -> str:
        return f"{{{', '.join(f'{key}={value}' for key, value in shown_options(self._raw).items())}}}"


def _as_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _as_bytes(text: str) -> bytes:
    import base64

    return base64.b64decode(text, validate=True)  # whose error is a ValueError
