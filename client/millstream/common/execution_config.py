"""`ExecutionConfig`: what `env.get_config()` answers, with PyFlink's names. Every setting is an option of its own.

What is about Java (Kryo, Avro for its classes, its closures) has one answer here; to ask for another is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from millstream.common.configuration import Configuration
from millstream.common.time import Interval, plain_milliseconds
from millstream.core.errors import InvalidProgramError
from millstream.core.settings.own_keys import JOB_PARAMETERS, job_parameters


class ExecutionConfig:
    """Reads and sets an environment's options. Setters answer the object itself. Times are milliseconds."""

    PARALLELISM_DEFAULT = -1
    PARALLELISM_UNKNOWN = -2

    def __init__(self, explicit: Configuration, current: Callable[[], Configuration]) -> None:
        self._explicit = explicit
        self._current = current

    # Parallelism

    def get_parallelism(self) -> int:
        """The parallelism of operators that set none themselves."""
        return self._current().integer("parallelism.default")

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """The parallelism of operators that set none themselves; PARALLELISM_DEFAULT: as configured."""
        if parallelism == self.PARALLELISM_UNKNOWN:
            return self
        return self._set_number("set_parallelism", "parallelism.default", parallelism, 1)

    def get_max_parallelism(self) -> int:
        """The number of key groups; -1: each operator's follows from its parallelism."""
        return self._current().integer("pipeline.max-parallelism")

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Sets `max_parallelism`, the number of key groups, of the operators that do not set their own."""
        from millstream.core.keys.key_groups import HIGHEST_MAX_PARALLELISM  # what keys need is not loaded for this

        key = "pipeline.max-parallelism"
        return self._set_number("set_max_parallelism", key, max_parallelism, 1, HIGHEST_MAX_PARALLELISM)

    # Time

    def set_auto_watermark_interval(self, interval: Interval) -> ExecutionConfig:
        """Sets the `interval` at which watermark generators are called: milliseconds or a duration."""
        return self._set_time("set_auto_watermark_interval", "pipeline.auto-watermark-interval", interval)

    def get_auto_watermark_interval(self) -> int:
        """How often generators of watermarks are asked for one."""
        return self._time("pipeline.auto-watermark-interval")

    def set_task_cancellation_interval(self, interval: Interval) -> ExecutionConfig:
        """Sets the `interval` in milliseconds at which a function that was cancelled is interrupted again."""
        return self._set_time("set_task_cancellation_interval", "task.cancellation.interval", interval)

    def get_task_cancellation_interval(self) -> int:
        """How often a function that is to be cancelled is interrupted."""
        return self._time("task.cancellation.interval")

    def set_task_cancellation_timeout(self, timeout: Interval) -> ExecutionConfig:
        """Sets the `timeout` in milliseconds after which a worker that cannot be cancelled is killed; 0 is never."""
        return self._set_time("set_task_cancellation_timeout", "task.cancellation.timeout", timeout)

    def get_task_cancellation_timeout(self) -> int:
        """After how long the worker of a function that does not end is killed."""
        return self._time("task.cancellation.timeout")

    def set_latency_tracking_interval(self, interval: Interval) -> ExecutionConfig:
        """Accepts an `interval` of 0 or less only: latency tracking is not available."""
        if plain_milliseconds(interval) != 0 and not (isinstance(interval, int) and interval < 0):
            raise _refused("set_latency_tracking_interval", "latency is not tracked by markers")
        return self

    def get_latency_tracking_interval(self) -> int:
        """0: no latency is tracked."""
        return 0

    # Records and functions

    def enable_object_reuse(self) -> ExecutionConfig:
        """Records are handed on as they are: for programs that change none after they have emitted or got it."""
        self._explicit.set("pipeline.object-reuse", True)
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        """Records that can be changed are copied where someone else may hold them: the default."""
        self._explicit.set("pipeline.object-reuse", False)
        return self

    def is_object_reuse_enabled(self) -> bool:
        """Whether records are handed on as they are."""
        return self._current().boolean("pipeline.object-reuse")

    def enable_auto_generated_uids(self) -> None:
        """Operators may do without a uid: the default."""
        self._explicit.set("pipeline.auto-generate-uids", True)

    def disable_auto_generated_uids(self) -> None:
        """A job with an operator that has no uid is refused."""
        self._explicit.set("pipeline.auto-generate-uids", False)

    def has_auto_generated_uids_enabled(self) -> bool:
        """Whether operators may do without a uid."""
        return self._current().boolean("pipeline.auto-generate-uids")

    def get_global_job_parameters(self) -> dict[str, str]:
        """What the program set under keys of its own; functions read it with `get_job_parameter`."""
        return job_parameters(self._current().to_dict())

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, Any]) -> ExecutionConfig:
        """Sets the parameters that functions read, a dict: `global_job_parameters_dict`. Replaces earlier ones."""
        for key in self._explicit.key_set():
            if key.startswith(JOB_PARAMETERS):
                self._explicit.remove_config(key)
        for key, value in global_job_parameters_dict.items():
            self._explicit.set(f"{JOB_PARAMETERS}{key}", value)
        return self

    # What has one answer

    def is_use_snapshot_compression(self) -> bool:
        """True: snapshots are compressed files."""
        return True

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> None:
        """Accepts any `use_snapshot_compression`: snapshots are always compressed."""
        if not use_snapshot_compression:
            raise _refused("set_use_snapshot_compression", "snapshots are always compressed")

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Functions are always shipped with just what they refer to."""
        return self

    def disable_closure_cleaner(self) -> ExecutionConfig:
        """Refused: functions are always shipped with just what they refer to."""
        raise _refused("disable_closure_cleaner", "functions are always shipped with just what they refer to")

    def is_closure_cleaner_enabled(self) -> bool:
        """True: functions are shipped with just what they refer to."""
        return True

    def enable_generic_types(self) -> None:
        """Records whose type is not declared are always taken."""

    def disable_generic_types(self) -> None:
        """Refused: records whose type is not declared are always taken."""
        raise _refused("disable_generic_types", "records whose type is not declared are pickled; declare their types")

    def has_generic_types_disabled(self) -> bool:
        """False: records whose type is not declared are taken."""
        return False

    def enable_force_kryo(self) -> None:
        """Refused: Kryo serializes Java objects."""
        raise _refused("enable_force_kryo", "Kryo serializes Java objects, and there are none")

    def disable_force_kryo(self) -> None:
        """Kryo is never used."""

    def is_force_kryo_enabled(self) -> bool:
        """False: Kryo is never used."""
        return False

    def enable_force_avro(self) -> None:
        """Refused: it is about Java objects."""
        raise _refused("enable_force_avro", "it is about Java objects; for files there is the Avro format")

    def disable_force_avro(self) -> None:
        """Java objects are never serialized."""

    def is_force_avro_enabled(self) -> bool:
        """False: Java objects are never serialized."""
        return False

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """None: Kryo is never used."""
        return {}

    def get_registered_kryo_types(self) -> list[str]:
        """None: Kryo is never used."""
        return []

    def get_registered_pojo_types(self) -> list[str]:
        """None: there are no Java classes."""
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

    def _time(self, key: str) -> int:
        return round(self._current().seconds(key) * 1000)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._current() == other._current()

    def __hash__(self) -> int:
        return hash(self._current())


def _refused(method: str, why: str) -> InvalidProgramError:
    return InvalidProgramError(f"{method}: {why}")
