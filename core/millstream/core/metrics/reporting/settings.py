"""The settings of one reporter, read from the service's options, and its filter of figures. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.errors import ConfigurationError
from millstream.core.metrics.model import MetricGroup, MetricKind
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options import OptionKey
from millstream.core.settings.options.metrics import (
    METRICS_REPORTERS,
    REPORTER,
    REPORTER_FACTORY_CLASS,
    REPORTER_FILTER_EXCLUDES,
    REPORTER_FILTER_INCLUDES,
    REPORTER_SCOPE_VARIABLES_ADDITIONAL,
    REPORTER_SCOPE_VARIABLES_EXCLUDES,
)

T = TypeVar("T")
_PREFIX = "metrics.reporter."
_CLASS = "factory.class"


class MetricFilter(Struct, frozen=True):
    """One `scope:name,name:type,type`."""

    scope: str
    names: tuple[str, ...]
    kinds: tuple[str, ...]

    def matches(self, scope: str, name: str, kind: MetricKind) -> bool:
        """Whether the filter includes a figure."""
        return (
            fnmatchcase(scope, self.scope)
            and any(fnmatchcase(name, pattern) for pattern in self.names)
            and any(fnmatchcase(kind, pattern) for pattern in self.kinds)
        )


class ReporterSettings(Struct, frozen=True):
    """The settings of one reporter in one service."""

    name: str
    service: str
    kind: str
    """The value of its `factory.class`."""
    configuration: Configuration
    includes: tuple[MetricFilter, ...]
    excludes: tuple[MetricFilter, ...]
    without: frozenset[str]
    """Variables that are excluded."""
    additional: Mapping[str, str]

    def key(self, setting: str) -> str:
        """Returns the key of a setting's option."""
        return f"{_PREFIX}{self.name}.{setting}"

    def get(self, option: OptionKey[T]) -> T:
        """Returns the value of an option of reporters, such as `REPORTER_INTERVAL`."""
        return self.configuration.get(_of(self.name, option))

    def text(self, setting: str) -> str:
        """Returns a text setting, also of a plug-in; empty if it is not set."""
        return str(self.configuration.value(self.key(setting)))

    def shown(self, groups: list[MetricGroup]) -> list[MetricGroup]:
        """Returns the groups with the filters and variables of the reporter applied."""
        return [seen for group in groups if (seen := self._seen(group)) is not None]

    def _seen(self, group: MetricGroup) -> MetricGroup | None:
        if self.without or self.additional:
            kept = {name: value for name, value in group.variables.items() if name not in self.without}
            group = replace(group, variables={**self.additional, **kept})
        if not self.excludes and all(f == _EVERYTHING for f in self.includes):
            return group
        scope = ".".join((group.scope, *group.logical))
        group = replace(
            group,
            counters={n: v for n, v in group.counters.items() if self._is_wanted(scope, n, MetricKind.COUNTER)},
            gauges={n: v for n, v in group.gauges.items() if self._is_wanted(scope, n, MetricKind.GAUGE)},
            meters={n: v for n, v in group.meters.items() if self._is_wanted(scope, n, MetricKind.METER)},
            histograms={n: v for n, v in group.histograms.items() if self._is_wanted(scope, n, MetricKind.HISTOGRAM)},
        )
        return group if group.counters or group.gauges or group.meters or group.histograms else None

    def _is_wanted(self, scope: str, name: str, kind: MetricKind) -> bool:
        return any(f.matches(scope, name, kind) for f in self.includes) and not any(
            f.matches(scope, name, kind) for f in self.excludes
        )


_EVERYTHING = MetricFilter("*", ("*",), ("*",))


def reporter_settings(configuration: Configuration, service: str) -> list[ReporterSettings]:
    """Reads the settings of all configured reporters. Raises ConfigurationError."""
    given = {key.removeprefix(_PREFIX) for key in configuration.to_dict() if key.startswith(_PREFIX)}
    defined = sorted({key.partition(".")[0] for key in given if key.partition(".")[2] == _CLASS})
    listed = [name.strip() for name in configuration.get(METRICS_REPORTERS).split(",") if name.strip()]
    for name in listed:
        if name not in defined:
            raise ConfigurationError(
                f"option 'metrics.reporters' names '{name}', which has no class: set '{_PREFIX}{name}.{_CLASS}'"
            )
    return [_settings(configuration, service, name) for name in listed or defined]


def _of(name: str, option: OptionKey[T]) -> OptionKey[T]:
    """The option of the reporter with this name."""
    return OptionKey(option.replace(REPORTER, f"{_PREFIX}{name}"))


def _settings(configuration: Configuration, service: str, name: str) -> ReporterSettings:
    def text(option: OptionKey[str]) -> str:
        return configuration.get(_of(name, option)).strip()

    def filters(option: OptionKey[str]) -> tuple[MetricFilter, ...]:
        return tuple(_filter(_of(name, option), part) for part in text(option).split(";") if part.strip())

    additional: dict[str, str] = {}
    for part in filter(None, map(str.strip, text(REPORTER_SCOPE_VARIABLES_ADDITIONAL).split(","))):
        variable, colon, value = part.partition(":")
        if not colon or not variable.strip():
            key = _of(name, REPORTER_SCOPE_VARIABLES_ADDITIONAL)
            raise ConfigurationError(f"option '{key}': '{part}' is not name:value")
        additional[variable.strip()] = value.strip()
    without = frozenset(v.strip().strip("<>") for v in text(REPORTER_SCOPE_VARIABLES_EXCLUDES).split(";") if v.strip())
    return ReporterSettings(
        name, service, text(REPORTER_FACTORY_CLASS), configuration, filters(REPORTER_FILTER_INCLUDES),
        filters(REPORTER_FILTER_EXCLUDES), without,
        additional,
    )  # fmt: skip


def _filter(key: str, text: str) -> MetricFilter:
    """Parses a filter; missing parts at the end match anything, as in Flink."""
    scope, *rest = (part.strip() for part in text.split(":"))
    if len(rest) > 2:
        raise ConfigurationError(f"option '{key}': '{text}' is not scope:name,name:type,type")
    names, kinds = [*rest, "", ""][:2]
    for kind in filter(None, kinds.split(",")):
        if kind.strip() != "*" and kind.strip() not in tuple(MetricKind):
            raise ConfigurationError(f"option '{key}': '{kind.strip()}' is not one of {', '.join(MetricKind)}")
    return MetricFilter(scope or "*", _patterns(names), _patterns(kinds))


def _patterns(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip()) or ("*",)
