"""`ExecutionConfig`: the settings that `env.get_config()` returns, with PyFlink's names. Each setting is an option.

Settings for Java only (Kryo, Avro for Java classes, closures) have a fixed value; setting another value raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from millstream.common.configuration import Configuration
from millstream.common.time import Interval, plain_milliseconds
from millstream.core.errors import InvalidProgramError
from millstream.core.settings.options import OptionKey
from millstream.core.settings.options.metrics import METRICS_LATENCY_INTERVAL
from millstream.core.settings.options.scheduling import (
    PARALLELISM_DEFAULT,
    PIPELINE_AUTO_GENERATE_UIDS,
    PIPELINE_AUTO_WATERMARK_INTERVAL,
    PIPELINE_MAX_PARALLELISM,
    PIPELINE_OBJECT_REUSE,
    TASK_CANCELLATION_INTERVAL,
    TASK_CANCELLATION_TIMEOUT,
)
from millstream.core.settings.own_keys import JOB_PARAMETERS, job_parameters


class ExecutionConfig:
    """Reads and sets the options of an environment. Setters return the object itself. Times are in milliseconds."""

    PARALLELISM_DEFAULT = -1
    PARALLELISM_UNKNOWN = -2

    def __init__(self, explicit: Configuration, current: Callable[[], Configuration]) -> None:
        self._explicit = explicit
        self._current = current

    # Parallelism

    def get_parallelism(self) -> int:
        """Returns the parallelism of operators that do not set their own."""
        return self._current().get(PARALLELISM_DEFAULT)

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Sets the `parallelism` of operators that do not set their own; returns this object.

        `PARALLELISM_DEFAULT` restores the configured value; `PARALLELISM_UNKNOWN` has no effect. Raises
        `InvalidProgramError` unless the parallelism is an integer of at least 1.
        """
        if parallelism == self.PARALLELISM_UNKNOWN:
            return self
        return self._set_number("set_parallelism", PARALLELISM_DEFAULT, parallelism, 1)

    def get_max_parallelism(self) -> int:
        """Returns the number of key groups; -1 if it is derived from the parallelism of each operator."""
        return self._current().get(PIPELINE_MAX_PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Sets `max_parallelism`, the number of key groups, of operators that do not set their own."""
        from millstream.core.keys.key_groups import HIGHEST_MAX_PARALLELISM  # what keys need is not loaded for this

        key = PIPELINE_MAX_PARALLELISM
        return self._set_number("set_max_parallelism", key, max_parallelism, 1, HIGHEST_MAX_PARALLELISM)

    # Time

    def set_auto_watermark_interval(self, interval: Interval) -> ExecutionConfig:
        """Sets the `interval` at which watermark generators are called: milliseconds or a duration."""
        return self._set_time("set_auto_watermark_interval", PIPELINE_AUTO_WATERMARK_INTERVAL, interval)

    def get_auto_watermark_interval(self) -> int:
        """Returns the interval at which watermark generators are called, in milliseconds."""
        return self._time(PIPELINE_AUTO_WATERMARK_INTERVAL)

    def set_task_cancellation_interval(self, interval: Interval) -> ExecutionConfig:
        """Sets the `interval` in milliseconds at which a function that was cancelled is interrupted again."""
        return self._set_time("set_task_cancellation_interval", TASK_CANCELLATION_INTERVAL, interval)

    def get_task_cancellation_interval(self) -> int:
        """Returns the interval in milliseconds at which a function that was cancelled is interrupted again."""
        return self._time(TASK_CANCELLATION_INTERVAL)

    def set_task_cancellation_timeout(self, timeout: Interval) -> ExecutionConfig:
        """Sets the `timeout` in milliseconds after which a worker that cannot be cancelled is killed; 0 disables it."""
        return self._set_time("set_task_cancellation_timeout", TASK_CANCELLATION_TIMEOUT, timeout)

    def get_task_cancellation_timeout(self) -> int:
        """Returns the time in milliseconds after which a worker that cannot be cancelled is killed; 0 if never."""
        return self._time(TASK_CANCELLATION_TIMEOUT)

    def set_latency_tracking_interval(self, interval: Interval) -> ExecutionConfig:
        """Sets the `interval` at which sources emit latency markers; 0 or less: never."""
        never = isinstance(interval, int) and not isinstance(interval, bool) and interval < 0
        return self._set_time("set_latency_tracking_interval", METRICS_LATENCY_INTERVAL, 0 if never else interval)

    def get_latency_tracking_interval(self) -> int:
        """Returns the interval at which sources emit latency markers; 0: never."""
        return self._time(METRICS_LATENCY_INTERVAL)

    # Records and functions

    def enable_object_reuse(self) -> ExecutionConfig:
        """Passes mutable records on without copying them; returns this object.

        For programs that do not modify records after they have emitted or received them.
        """
        self._explicit.set(PIPELINE_OBJECT_REUSE, True)
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        """Copies mutable records that have several consumers or that their producer may keep; returns this object.

        This is the default.
        """
        self._explicit.set(PIPELINE_OBJECT_REUSE, False)
        return self

    def is_object_reuse_enabled(self) -> bool:
        """Returns whether mutable records are passed on without copying them."""
        return self._current().get(PIPELINE_OBJECT_REUSE)

    def enable_auto_generated_uids(self) -> None:
        """Generates a uid for operators without one, the default."""
        self._explicit.set(PIPELINE_AUTO_GENERATE_UIDS, True)

    def disable_auto_generated_uids(self) -> None:
        """Rejects jobs that have an operator without a uid."""
        self._explicit.set(PIPELINE_AUTO_GENERATE_UIDS, False)

    def has_auto_generated_uids_enabled(self) -> bool:
        """Returns whether a uid is generated for operators without one."""
        return self._current().get(PIPELINE_AUTO_GENERATE_UIDS)

    def get_global_job_parameters(self) -> dict[str, str]:
        """Returns the job parameters, which functions read with `get_job_parameter`."""
        return job_parameters(self._current().to_dict())

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, Any]) -> ExecutionConfig:
        """Replaces the job parameters by the dict `global_job_parameters_dict`; returns this object."""
        for key in self._explicit.key_set():
            if key.startswith(JOB_PARAMETERS):
                self._explicit.remove_config(key)
        for key, value in global_job_parameters_dict.items():
            self._explicit.set(f"{JOB_PARAMETERS}{key}", value)
        return self

    # Settings with a fixed value

    def is_use_snapshot_compression(self) -> bool:
        """Returns True: snapshots are always compressed."""
        return True

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> None:
        """Raises `InvalidProgramError` unless `use_snapshot_compression` is True: snapshots are always compressed."""
        if not use_snapshot_compression:
            raise _refused("set_use_snapshot_compression", "snapshots are always compressed")

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Has no effect: functions are always serialized with only the objects that they refer to."""
        return self

    def disable_closure_cleaner(self) -> ExecutionConfig:
        """Raises `InvalidProgramError`: functions are always serialized with only the objects that they refer to."""
        why = "functions are always serialized with only the objects that they refer to"
        raise _refused("disable_closure_cleaner", why)

    def is_closure_cleaner_enabled(self) -> bool:
        """Returns True: functions are always serialized with only the objects that they refer to."""
        return True

    def enable_generic_types(self) -> None:
        """Has no effect: records without a declared type are always allowed."""

    def disable_generic_types(self) -> None:
        """Raises `InvalidProgramError`: records without a declared type are always allowed."""
        raise _refused("disable_generic_types", "records whose type is not declared are pickled; declare their types")

    def has_generic_types_disabled(self) -> bool:
        """Returns False: records without a declared type are always allowed."""
        return False

    def enable_force_kryo(self) -> None:
        """Raises `InvalidProgramError`: Kryo serializes Java objects."""
        raise _refused("enable_force_kryo", "Kryo serializes Java objects, and there are none")

    def disable_force_kryo(self) -> None:
        """Has no effect: Kryo is not used."""

    def is_force_kryo_enabled(self) -> bool:
        """Returns False: Kryo is not used."""
        return False

    def enable_force_avro(self) -> None:
        """Raises `InvalidProgramError`: the setting is for Java objects."""
        raise _refused("enable_force_avro", "the setting is for Java objects; for files, use the Avro format")

    def disable_force_avro(self) -> None:
        """Has no effect: there are no Java objects."""

    def is_force_avro_enabled(self) -> bool:
        """Returns False: there are no Java objects."""
        return False

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """Returns an empty dict: Kryo is not used."""
        return {}

    def get_registered_kryo_types(self) -> list[str]:
        """Returns an empty list: Kryo is not used."""
        return []

    def get_registered_pojo_types(self) -> list[str]:
        """Returns an empty list: there are no Java classes."""
        return []

    def _set_number(self, method: str, key: str, value: Any, least: int, most: int | None = None) -> ExecutionConfig:
        if value == self.PARALLELISM_DEFAULT:
            self._explicit.remove_config(key)
            return self
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number or value < least or (most is not None and value > most):
            bounds = f"at least {least}" if most is None else f"{least} to {most}"
            raise InvalidProgramError(f"{method}: a parallelism is a whole number of {bounds}, not {value!r}")
        self._explicit.set(key, value)
        return self

    def _set_time(self, method: str, key: str, interval: Any) -> ExecutionConfig:
        value = plain_milliseconds(interval)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidProgramError(f"{method}: expected milliseconds or a duration, not {interval!r}")
        self._explicit.set(key, f"{value} ms")
        return self

    def _time(self, key: OptionKey[float]) -> int:
        return round(self._current().get(key) * 1000)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._current() == other._current()

    def __hash__(self) -> int:
        return hash(self._current())


def _refused(method: str, why: str) -> InvalidProgramError:
    return InvalidProgramError(f"{method}: {why}")
