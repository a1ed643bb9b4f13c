"""The validated settings of the autoscaler, with Flink's options."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import Configuration

_PREFIX = "job.autoscaler"
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
    if not configuration.boolean(f"{_PREFIX}.enabled"):
        return None

    def milliseconds(key: str) -> float:
        return configuration.seconds(f"{_PREFIX}.{key}") * 1000

    def number(key: str) -> float:
        return float(configuration.get(f"{_PREFIX}.{key}"))

    def bound(key: str, apart: float) -> float:
        """Returns a bound of the utilisation; by default, its distance to the target is fixed."""
        is_set = configuration.is_set(f"{_PREFIX}.{key}")
        return number(key) if is_set else round(number("utilization.target") + apart, 6)

    settings = AutoscalerSettings(
        acts=configuration.boolean(f"{_PREFIX}.scaling.enabled"),
        window_ms=milliseconds("metrics.window"),
        stabilization_ms=milliseconds("stabilization.interval"),
        scale_down_interval_ms=milliseconds("scale-down.interval"),
        catch_up_ms=milliseconds("catch-up.duration"),
        target=number("utilization.target"),
        lowest=bound("utilization.min", -_APART),
        highest=bound("utilization.max", _APART),
        scale_up_factor=number("scale-up.max-factor"),
        scale_down_factor=number("scale-down.max-factor"),
        least=configuration.integer(f"{_PREFIX}.vertex.min-parallelism"),
        most=configuration.integer(f"{_PREFIX}.vertex.max-parallelism"),
        excluded=frozenset(
            part.strip() for part in configuration.string(f"{_PREFIX}.vertex.exclude.ids").split(";") if part.strip()
        ),
    )
    if not settings.lowest <= settings.target <= settings.highest:
        raise ConfigurationError(
            f"option '{_PREFIX}.utilization.target': {settings.target:g} is not between utilization.min "
            f"({settings.lowest:g}) and utilization.max ({settings.highest:g})"
        )
    if settings.least > settings.most:
        raise ConfigurationError(
            f"option '{_PREFIX}.vertex.min-parallelism': {settings.least} is more than vertex.max-parallelism, "
            f"{settings.most}"
        )
    return settings
