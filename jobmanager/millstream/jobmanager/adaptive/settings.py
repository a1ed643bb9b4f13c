"""The validated settings of the adaptive scheduler, with Flink's options."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import Configuration

_PREFIX = "jobmanager.adaptive-scheduler"


class RescaleSettings(Struct, frozen=True):
    """Settings of the rescaling of any job: its checkpoint and its wait for slots. Times in milliseconds."""

    slot_timeout_ms: float = 300_000
    checkpoint_failures: int = 2
    """The number of checkpoints that may fail before the job is rescaled from its last completed one."""
    checkpoint_timeout_ms: float | None = None
    """How long the rescale waits for its checkpoint; None: without a limit."""
    has_checkpoints: bool = True
    """Whether the job takes periodic checkpoints, so that there is a completed one to restore from."""


class AdaptiveSettings(Struct, frozen=True):
    """Settings of a job that adapts to the available slots; times in milliseconds."""

    reactive: bool = False
    wait_timeout_ms: float | None = 300_000
    """How long it waits for all slots that it can use before it runs in fewer, or fails; None: without a limit."""
    stabilization_ms: float = 10_000
    """How long it waits for more slots when it could run in the available ones."""
    cooldown_ms: float = 30_000
    """The cooldown after a rescale, before the next one is considered."""
    executing_stabilization_ms: float = 60_000
    """How long a running job waits for more slots before it is rescaled to the available ones."""


def adaptive_settings(configuration: Configuration) -> AdaptiveSettings | None:
    """Reads a job's settings from its options and the cluster's; None when it does not adapt to the slots."""
    reactive = configuration.string("scheduler-mode") == "reactive"
    if configuration.string("jobmanager.scheduler") != "adaptive":
        if reactive:
            raise ConfigurationError("option 'scheduler-mode': reactive needs 'jobmanager.scheduler: adaptive'")
        return None
    if reactive and configuration.string("resourcemanager.provider") == "process":
        raise ConfigurationError(
            "option 'scheduler-mode': a reactive job uses all available slots, and 'resourcemanager.provider: "
            "process' starts as many as jobs request; use one or the other"
        )

    def milliseconds(key: str, if_reactive: float) -> float:
        option = f"{_PREFIX}.{key}"
        unset = reactive and not configuration.is_set(option)
        return if_reactive if unset else configuration.seconds(option) * 1000

    wait = milliseconds("submission.resource-wait-timeout", -1)
    return AdaptiveSettings(
        reactive,
        wait if wait >= 0 else None,
        milliseconds("submission.resource-stabilization-timeout", 0),
        configuration.seconds(f"{_PREFIX}.executing.cooldown-after-rescaling") * 1000,
        configuration.seconds(f"{_PREFIX}.executing.resource-stabilization-timeout") * 1000,
    )


def rescale_settings(configuration: Configuration, has_checkpoints: bool) -> RescaleSettings:
    """Reads the settings of rescaling."""
    delay = configuration.seconds(f"{_PREFIX}.rescale-trigger.max-delay")
    return RescaleSettings(
        configuration.seconds("slot.request.timeout") * 1000,
        configuration.integer(f"{_PREFIX}.rescale-trigger.max-checkpoint-failures"),
        delay * 1000 if delay > 0 else None,
        has_checkpoints,
    )
