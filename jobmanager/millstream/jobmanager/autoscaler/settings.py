"""The validated settings of the autoscaler, with Flink's options."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options import OptionKey
from millstream.core.settings.options.scheduling import (
    AUTOSCALER_CATCH_UP_DURATION,
    AUTOSCALER_ENABLED,
    AUTOSCALER_METRICS_WINDOW,
    AUTOSCALER_SCALE_DOWN_INTERVAL,
    AUTOSCALER_SCALE_DOWN_MAX_FACTOR,
    AUTOSCALER_SCALE_UP_MAX_FACTOR,
    AUTOSCALER_SCALING_ENABLED,
    AUTOSCALER_STABILIZATION_INTERVAL,
    AUTOSCALER_UTILIZATION_MAX,
    AUTOSCALER_UTILIZATION_MIN,
    AUTOSCALER_UTILIZATION_TARGET,
    AUTOSCALER_VERTEX_EXCLUDE_IDS,
    AUTOSCALER_VERTEX_MAX_PARALLELISM,
    AUTOSCALER_VERTEX_MIN_PARALLELISM,
)

_APART = 0.2


class AutoscalerSettings(Struct, frozen=True):
    """Times in milliseconds, utilisation as a fraction of 1."""

    acts: bool = True
    """Whether decisions are carried out instead of only being recorded in the job's events."""
    window_ms: float = 900_000
    stabilization_ms: float = 300_000
    scale_down_interval_ms: float = 3_600_000
    catch_up_ms: float = 1_800_000
    """The time in which a backlog should be processed; 0: backlogs are ignored."""
    target: float = 0.7
    lowest: float = 0.5
    highest: float = 0.9
    scale_up_factor: float = 100_000.0
    scale_down_factor: float = 0.6
    least: int = 1
    most: int = 200
    excluded: frozenset[str] = frozenset()


def autoscaler_settings(configuration: Configuration) -> AutoscalerSettings | None:
    """Reads a job's settings from its options and the cluster's; None when the autoscaler is disabled."""
    if not configuration.get(AUTOSCALER_ENABLED):
        return None

    def milliseconds(option: OptionKey[float]) -> float:
        return configuration.get(option) * 1000

    def bound(option: OptionKey[float], apart: float) -> float:
        """Returns a bound of the utilisation; by default, its distance to the target is fixed."""
        if configuration.is_set(option):
            return configuration.get(option)
        return round(configuration.get(AUTOSCALER_UTILIZATION_TARGET) + apart, 6)

    settings = AutoscalerSettings(
        acts=configuration.get(AUTOSCALER_SCALING_ENABLED),
        window_ms=milliseconds(AUTOSCALER_METRICS_WINDOW),
        stabilization_ms=milliseconds(AUTOSCALER_STABILIZATION_INTERVAL),
        scale_down_interval_ms=milliseconds(AUTOSCALER_SCALE_DOWN_INTERVAL),
        catch_up_ms=milliseconds(AUTOSCALER_CATCH_UP_DURATION),
        target=configuration.get(AUTOSCALER_UTILIZATION_TARGET),
        lowest=bound(AUTOSCALER_UTILIZATION_MIN, -_APART),
        highest=bound(AUTOSCALER_UTILIZATION_MAX, _APART),
        scale_up_factor=configuration.get(AUTOSCALER_SCALE_UP_MAX_FACTOR),
        scale_down_factor=configuration.get(AUTOSCALER_SCALE_DOWN_MAX_FACTOR),
        least=configuration.get(AUTOSCALER_VERTEX_MIN_PARALLELISM),
        most=configuration.get(AUTOSCALER_VERTEX_MAX_PARALLELISM),
        excluded=frozenset(
            part.strip() for part in configuration.get(AUTOSCALER_VERTEX_EXCLUDE_IDS).split(";") if part.strip()
        ),
    )
    if not settings.lowest <= settings.target <= settings.highest:
        raise ConfigurationError(
            f"option '{AUTOSCALER_UTILIZATION_TARGET}': {settings.target:g} is not between utilization.min "
            f"({settings.lowest:g}) and utilization.max ({settings.highest:g})"
        )
    if settings.least > settings.most:
        raise ConfigurationError(
            f"option '{AUTOSCALER_VERTEX_MIN_PARALLELISM}': {settings.least} is more than vertex.max-parallelism, "
            f"{settings.most}"
        )
    return settings
