"""The time-to-live of keyed state: `StateTtlConfig` and its builder, with PyFlink's names.

Time is processing time. An entry expires a fixed time after it was written (or read, if so configured); list elements
and map entries expire independently.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any, TypeVar

from millstream.common.time import Duration, Time
from millstream.core.errors import InvalidProgramError

E = TypeVar("E", bound=Enum)


class UpdateType(Enum):
    """The accesses that reset the time-to-live of an entry."""

    Disabled = 0
    OnCreateAndWrite = 1
    OnReadAndWrite = 2


class StateVisibility(Enum):
    """Whether an expired entry that still exists is returned, once, when it is read."""

    ReturnExpiredIfNotCleanedUp = 0
    NeverReturnExpired = 1


class TtlTimeCharacteristic(Enum):
    """The clock of the time-to-live."""

    ProcessingTime = 0


class Strategies(Enum):
    """The strategies that remove expired entries, besides removing them when they are read."""

    FULL_STATE_SCAN_SNAPSHOT = 0
    INCREMENTAL_CLEANUP = 1
    ROCKSDB_COMPACTION_FILTER = 2


@dataclass(frozen=True, slots=True)
class IncrementalCleanupStrategy:
    """Checks `cleanup_size` entries at each access to the state, and for each record if so configured."""

    cleanup_size: int = 5
    every_record: bool = False

    def get_cleanup_size(self) -> int:
        """Returns the number of entries that are checked each time."""
        return self.cleanup_size

    def run_cleanup_for_every_record(self) -> bool:
        """Returns whether entries are checked for each record too."""
        return self.every_record


@dataclass(frozen=True, slots=True)
class RocksdbCompactFilterCleanupStrategy:
    """Removes expired entries when RocksDB compacts its files."""

    query_time_after_num_entries: int = 1000
    periodic_compaction_time: Any = None
    """A duration, stored as a `Duration`; 30 days by default."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "periodic_compaction_time", _compaction_time(self.periodic_compaction_time))

    def get_query_time_after_num_entries(self) -> int:
        """Returns the number of entries that are processed between two readings of the clock."""
        return self.query_time_after_num_entries

    def get_periodic_compaction_time(self) -> Duration:
        """Returns the age at which files are compacted to remove expired entries; 0 disables it."""
        found: Duration = self.periodic_compaction_time
        return found


_CleanupStrategy = IncrementalCleanupStrategy | RocksdbCompactFilterCleanupStrategy

# The names of the classes above where PyFlink has them: inside of the classes below.
_Strategies = Strategies
_Incremental = IncrementalCleanupStrategy
_CompactFilter = RocksdbCompactFilterCleanupStrategy
_UpdateType = UpdateType
_Visibility = StateVisibility
_Characteristic = TtlTimeCharacteristic


@dataclass(frozen=True, slots=True)
class CleanupStrategies:
    """The configured cleanup strategies. Cleanup in the background uses incremental cleanup by default."""

    strategies: dict[Strategies, _CleanupStrategy | None] = field(default_factory=dict)
    cleanup_in_background: bool = True

    Strategies = _Strategies
    IncrementalCleanupStrategy = _Incremental
    RocksdbCompactFilterCleanupStrategy = _CompactFilter

    def is_cleanup_in_background(self) -> bool:
        """Returns whether the state backend uses its default strategy if none is configured."""
        return self.cleanup_in_background

    def in_full_snapshot(self) -> bool:
        """Returns whether expired entries are left out of snapshots."""
        return Strategies.FULL_STATE_SCAN_SNAPSHOT in self.strategies

    def in_rocksdb_compact_filter(self) -> bool:
        """Returns whether RocksDB's compaction removes expired entries."""
        return self.get_rocksdb_compact_filter_cleanup_strategy() is not None

    def get_incremental_cleanup_strategy(self) -> _Incremental | None:
        """Returns the configured strategy, or the default one for cleanup in the background; None without either."""
        found = self.strategies.get(Strategies.INCREMENTAL_CLEANUP)
        if isinstance(found, IncrementalCleanupStrategy):
            return found
        return IncrementalCleanupStrategy() if self.cleanup_in_background else None

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> _CompactFilter | None:
        """Returns the configured strategy, or the default one for cleanup in the background; None without either."""
        found = self.strategies.get(Strategies.ROCKSDB_COMPACTION_FILTER)
        if isinstance(found, RocksdbCompactFilterCleanupStrategy):
            return found
        return RocksdbCompactFilterCleanupStrategy() if self.cleanup_in_background else None


def milliseconds(ttl: Any) -> int:
    """Returns the milliseconds of a timedelta, or of any object with a method `to_milliseconds()`."""
    if isinstance(ttl, timedelta):
        return int(ttl / timedelta(milliseconds=1))
    if hasattr(ttl, "to_milliseconds"):
        return int(ttl.to_milliseconds())
    raise InvalidProgramError(
        f"a time-to-live must be a duration, such as timedelta(hours=1), not {type(ttl).__qualname__}"
    )


def _compaction_time(given: Any) -> Duration:
    if isinstance(given, Duration):
        return given
    unset = not given and not isinstance(given, timedelta)
    return Duration.of_days(30) if unset else Duration.of_millis(milliseconds(given))


def _one_of(kind: type[E], given: E) -> E:
    if not isinstance(given, kind):
        known = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
        raise InvalidProgramError(f"StateTtlConfig: expected one of {known}, not {given!r}")
    return given


_CleanupStrategies = CleanupStrategies


@dataclass(frozen=True)
class StateTtlConfig:
    """The time-to-live of a state; created by `StateTtlConfig.new_builder(ttl)`."""

    update_type: UpdateType
    state_visibility: StateVisibility
    ttl_time_characteristic: TtlTimeCharacteristic
    ttl: Any
    """A duration, stored as a `Time`."""
    cleanup_strategies: CleanupStrategies = field(default_factory=CleanupStrategies)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ttl", Time.milliseconds(milliseconds(self.ttl)))

    @property
    def ttl_ms(self) -> int:
        """The time-to-live in milliseconds."""
        return milliseconds(self.ttl)

    UpdateType = _UpdateType
    StateVisibility = _Visibility
    TtlTimeCharacteristic = _Characteristic
    CleanupStrategies = _CleanupStrategies

    @staticmethod
    def new_builder(ttl: Any) -> StateTtlConfig.Builder:
        """Returns a builder of a configuration in which entries live for `ttl`, a duration."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> _UpdateType:
        """Returns which accesses reset the time-to-live of an entry."""
        return self.update_type

    def get_state_visibility(self) -> _Visibility:
        """Returns whether expired entries that still exist are returned when they are read."""
        return self.state_visibility

    def get_ttl(self) -> Time:
        """Returns the time-to-live."""
        return Time.milliseconds(self.ttl_ms)

    def get_ttl_time_characteristic(self) -> _Characteristic:
        """Returns the clock of the time-to-live."""
        return self.ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Returns whether entries expire."""
        return self.update_type is not UpdateType.Disabled

    def get_cleanup_strategies(self) -> _CleanupStrategies:
        """Returns the cleanup strategies."""
        return self.cleanup_strategies

    class Builder:
        """Builds a `StateTtlConfig`. All methods except `build` return the builder."""

        def __init__(self, ttl: Any) -> None:
            self.set_ttl(ttl)
            self._update_type = UpdateType.OnCreateAndWrite
            self._visibility = StateVisibility.NeverReturnExpired
            self._characteristic = TtlTimeCharacteristic.ProcessingTime
            self._strategies: dict[Strategies, _CleanupStrategy | None] = {}
            self._in_background = True

        def set_ttl(self, ttl: Any) -> StateTtlConfig.Builder:
            """Sets `ttl`, the time-to-live, a duration. Raises `InvalidProgramError` unless it is above 0."""
            self._ttl_ms = milliseconds(ttl)
            if self._ttl_ms <= 0:
                raise InvalidProgramError(f"a time-to-live must be longer than 0, not {ttl}")
            return self

        def set_update_type(self, update_type: UpdateType) -> StateTtlConfig.Builder:
            """Sets `update_type`, the accesses that reset the time-to-live of an entry."""
            self._update_type = _one_of(UpdateType, update_type)
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """Resets the time-to-live when an entry is created or written."""
            return self.set_update_type(UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """Resets the time-to-live when an entry is read or written."""
            return self.set_update_type(UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: StateVisibility) -> StateTtlConfig.Builder:
            """Sets `state_visibility`: whether expired entries that still exist are returned when they are read."""
            self._visibility = _one_of(StateVisibility, state_visibility)
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """Makes reads return an expired entry once if it still exists."""
            return self.set_state_visibility(StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """Makes reads never return an expired entry."""
            return self.set_state_visibility(StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(self, characteristic: TtlTimeCharacteristic) -> StateTtlConfig.Builder:
            """Sets `characteristic`, the clock of the time-to-live."""
            self._characteristic = _one_of(TtlTimeCharacteristic, characteristic)
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """Uses processing time."""
            return self.set_ttl_time_characteristic(TtlTimeCharacteristic.ProcessingTime)

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Leaves expired entries out of snapshots."""
            self._strategies[Strategies.FULL_STATE_SCAN_SNAPSHOT] = None
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool = False
        ) -> StateTtlConfig.Builder:
            """Checks `cleanup_size` entries at each access to the state; returns this builder.

            With `run_cleanup_for_every_record`, they are checked for each record too. Raises `InvalidProgramError`
            unless `cleanup_size` is above 0.
            """
            if cleanup_size <= 0:
                raise InvalidProgramError(f"cleanup_incrementally: cleanup_size must be positive, not {cleanup_size}")
            strategy = IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record)
            self._strategies[Strategies.INCREMENTAL_CLEANUP] = strategy
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int = 1000, periodic_compaction_time: Any = None
        ) -> StateTtlConfig.Builder:
            """Removes expired entries when RocksDB compacts its files.

            The clock is read once for `query_time_after_num_entries` entries. Files older than
            `periodic_compaction_time` are compacted for this purpose; 30 days by default.
            """
            strategy = RocksdbCompactFilterCleanupStrategy(query_time_after_num_entries, periodic_compaction_time)
            self._strategies[Strategies.ROCKSDB_COMPACTION_FILTER] = strategy
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Runs only the configured strategies."""
            self._in_background = False
            return self

        def build(self) -> StateTtlConfig:
            """Returns the configuration."""
            return StateTtlConfig(
                self._update_type,
                self._visibility,
                self._characteristic,
                Time.milliseconds(self._ttl_ms),
                CleanupStrategies(dict(self._strategies), self._in_background),
            )
