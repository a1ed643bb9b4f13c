"""The configuration: validated option values over the defaults of `millstream.core.settings.options`.

Values are parsed with Flink's syntax (`10 s`, `64 mb`, `true`). A key of a former version of Flink is replaced by the
current one, and a key of PyFlink's exchange with Java, or of the messaging between Java processes, is dropped, each
with a warning. An unknown key in a namespace of Flink or Millstream is an error that names the closest one; any other
key is user-defined, and its value is text (`own_keys`).
"""

from __future__ import annotations

import math
import os
import re
import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from millstream.core.errors import ConfigurationError
from millstream.core.jobs.names import why_unwritable
from millstream.core.settings.former_keys import FORMER_KEYS
from millstream.core.settings.options import OPTIONS, JobMay, Option, OptionKey, OptionType
from millstream.core.settings.own_keys import why_dropped, why_unknown
from millstream.core.settings.secrets import shown_options
from millstream.core.settings.variables import CONF_DIR

T = TypeVar("T")
_DURATION_UNITS = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "milli": 1e-3, "millis": 1e-3, "s": 1.0, "sec": 1.0, "second": 1.0,
    "seconds": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0, "minutes": 60.0, "h": 3600.0, "hour": 3600.0,
    "hours": 3600.0, "d": 86400.0, "day": 86400.0, "days": 86400.0,
}  # fmt: skip
_MEMORY_UNITS = {
    "": 1, "b": 1, "bytes": 1, "k": 1024, "kb": 1024, "m": 1024**2, "mb": 1024**2, "g": 1024**3, "gb": 1024**3,
    "t": 1024**4, "tb": 1024**4,
}  # fmt: skip
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Zµ]*)\s*\Z")


def parse_duration(text: str) -> float:
    """Parses `10 s`, `100ms`, `1 min` to seconds; a number without a unit is milliseconds, as in Flink."""
    match = _QUANTITY.match(text)
    unit = match.group(2).lower() or "ms" if match else ""
    if match is None or unit not in _DURATION_UNITS:
        raise ValueError(f"'{text}' is not a duration; write it like '10 s' or '100 ms'")
    return float(match.group(1)) * _DURATION_UNITS[unit]


def parse_memory(text: str) -> int:
    """Parses `64 mb`, `1g`, `1024` to bytes."""
    match = _QUANTITY.match(text)
    if match is None or match.group(2).lower() not in _MEMORY_UNITS:
        raise ValueError(f"'{text}' is not a memory size; write it like '64 mb'")
    number, unit = match.group(1), _MEMORY_UNITS[match.group(2).lower()]
    return int(float(number) * unit) if "." in number else int(number) * unit


def _parse(option: Option, raw: Any) -> Any:
    text = str(raw).strip()
    match option.type:
        case OptionType.STRING:
            return text
        case OptionType.INT:
            try:
                return int(text)
            except ValueError:
                raise ValueError(f"'{text}' is not a whole number") from None
        case OptionType.FLOAT:
            try:
                number = float(text)
            except ValueError:
                number = math.nan
            if not math.isfinite(number):
                raise ValueError(f"'{text}' is not a number")
            return number
        case OptionType.BOOL:
            if text.lower() not in ("true", "false"):
                raise ValueError(f"'{text}' is neither true nor false")
            return text.lower() == "true"
        case OptionType.DURATION:
            may_be_negative = option.at_least is not None and option.at_least < 0
            return -parse_duration(text[1:]) if may_be_negative and text.startswith("-") else parse_duration(text)
        case OptionType.MEMORY:
            return parse_memory(text)
        case OptionType.ENUM:
            return _choice(option, text)
        case OptionType.MAP:
            return dict(_entry(option, part) for part in text.split(",") if part.strip())


def _choice(option: Option, text: str) -> str:
    for choice in option.choices:
        if choice.lower() == text.lower():
            return choice
    raise ValueError(f"'{text}' is not one of {', '.join(option.choices)}")


def _entry(option: Option, text: str) -> tuple[str, str]:
    name, _, value = (part.strip() for part in text.rpartition(":"))
    if not name:
        raise ValueError(f"'{text}' is not a name and a value; write it like 'name:{option.choices[-2]}'")
    return name, _choice(option, value)


def _within_bounds(option: Option, value: Any) -> Any:
    shown = {OptionType.DURATION: " s", OptionType.MEMORY: " bytes"}.get(option.type, "")
    if option.at_least is not None and value < option.at_least:
        raise ValueError(f"it has to be at least {option.at_least:g}{shown}")
    if option.at_most is not None and value > option.at_most:
        raise ValueError(f"it has to be at most {option.at_most:g}{shown}")
    return value


def _calls_of_ours() -> int:
    """Returns the number of stack frames of Millstream, so that warnings refer to the user's line."""
    frame, calls = sys._getframe(1), 1  # noqa: SLF001  # the only way to the caller
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("millstream."):
        frame, calls = frame.f_back, calls + 1
    return calls


def _is_map(key: str) -> bool:
    option = OPTIONS.get(key)
    return option is not None and option.type is OptionType.MAP


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and not _is_map(f"{prefix}{key}"):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


class Configuration:
    """Option values, validated when they are set. Immutable once shared; `merged` returns a new one."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._raw: dict[str, str] = {}
        self._parsed: dict[str, Any] = {}
        for key, value in (values or {}).items():
            self.set(key, value)

    @staticmethod
    def load(conf_dir: str | os.PathLike[str] | None = None, overrides: Iterable[str] = ()) -> Configuration:
        """Reads `config.yaml` of `conf_dir` (default `$MILLSTREAM_CONF_DIR`), then each `key=value` of `overrides`.

        Raises `ConfigurationError` for an invalid option, and for a folder without the file.
        """
        directory = conf_dir or os.environ.get(CONF_DIR)
        configuration = Configuration()
        if directory:
            path = Path(directory) / "config.yaml"
            if path.exists():
                configuration = Configuration.from_yaml(path)
            elif conf_dir or not Path(directory).is_dir():
                raise ConfigurationError(f"no config.yaml in the configuration directory {directory}")
        for item in overrides:
            key, separator, value = item.partition("=")
            if not separator:
                raise ConfigurationError(f"-D {item}: write it as -D key=value")
            configuration.set(key.strip(), value)
        return configuration

    @staticmethod
    def from_yaml(path: Path) -> Configuration:
        """Reads nested or dotted keys from the file `path`.

        Raises `ConfigurationError` for a file that cannot be read, and for an invalid option.
        """
        import yaml

        try:
            tree = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise ConfigurationError(f"{path}: {' '.join(str(error).split())}") from error
        if not isinstance(tree, Mapping):
            raise ConfigurationError(f"{path}: expected a mapping of options at the top")
        configuration = Configuration()
        for key, value in _flatten(tree):
            try:
                configuration.set(key, value)
            except ConfigurationError as error:
                raise ConfigurationError(f"{path}: {error}") from None
        return configuration

    def set(self, key: str, value: Any) -> None:
        """Checks `value` and sets the option `key` to it.

        Raises `ConfigurationError` for a value that the option does not take.
        """
        if isinstance(key, str) and (why := why_dropped(key)) is not None:
            warnings.warn(f"option '{key}' {why}: it is ignored", UserWarning, stacklevel=_calls_of_ours())
            return
        key = self._present_key(key)
        if isinstance(value, Mapping) and _is_map(key):
            value = ",".join(f"{name}:{item}" for name, item in _flatten(value))
        if isinstance(value, Mapping | list | tuple | set):
            raise ConfigurationError(f"option '{key}': expected one value, not {value!r}")
        text = str(value).lower() if isinstance(value, bool) else str(value if value is not None else "")
        if why := why_unwritable(text):
            raise ConfigurationError(f"option '{key}': {why}")
        option = OPTIONS.get(key)
        try:
            self._parsed[key] = text if option is None else _within_bounds(option, _parse(option, text))
        except ValueError as error:
            raise ConfigurationError(f"option '{key}': {error}") from None
        self._raw[key] = text

    @staticmethod
    def _present_key(key: str) -> str:
        """Returns the current key of the option; a user-defined key is returned unchanged."""
        if key in OPTIONS:
            return str(key)
        present = FORMER_KEYS.get(key)
        if present is not None:
            message = f"option '{key}' is deprecated: use '{present}'"
            warnings.warn(message, FutureWarning, stacklevel=_calls_of_ours())
            return present
        why = why_unknown(key) if isinstance(key, str) else f"unknown option '{key}'"
        if why is not None:
            raise ConfigurationError(why)
        return key

    def get(self, key: OptionKey[T]) -> T:
        """Returns the value of `key`, or the default of the option."""
        value: T = self.value(key)
        return value

    def value(self, key: str) -> Any:
        """Returns the value of a key that is not known in advance, such as a user's own, which has text or None."""
        if key in self._parsed:
            return self._parsed[key]
        return OPTIONS[key].default if key in OPTIONS else None

    def is_set(self, key: str) -> bool:
        """Returns whether `key` is set."""
        return key in self._raw

    def merged(self, other: Configuration | Mapping[str, Any]) -> Configuration:
        """Returns a new configuration in which the other's values take precedence."""
        result = Configuration(self._raw)
        for key, value in (other.to_dict() if isinstance(other, Configuration) else other).items():
            result.set(key, value)
        return result

    def for_job(self, options: Mapping[str, str]) -> Configuration:
        """Returns a service's configuration with those of a job's options that jobs may set (`JobMay`)."""
        requested = Configuration(options)
        result = Configuration(self._raw)
        for key, value in options.items():
            match OPTIONS[key].job_may if key in OPTIONS else JobMay.SET:
                case JobMay.SET:
                    result.set(key, value)
                case JobMay.LOWER:
                    if (requested.value(key) or math.inf) < (self.value(key) or math.inf):
                        result.set(key, value)
                case JobMay.NOT:
                    pass
        return result

    def to_dict(self) -> dict[str, str]:
        """Returns the values that were set, as text; `Configuration(c.to_dict())` equals `c`."""
        return dict(self._raw)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._raw == other._raw

    def __hash__(self) -> int:
        return hash(frozenset(self._raw.items()))

    def __repr__(self) -> str:
        return f"Configuration({shown_options(self._raw)!r})"
