"""The validated settings of the adaptive scheduler, with Flink's options."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options import OptionKey
from millstream.core.settings.options.scheduling import (
    ADAPTIVE_EXECUTING_COOLDOWN_AFTER_RESCALING,
    ADAPTIVE_EXECUTING_RESOURCE_STABILIZATION_TIMEOUT,
    ADAPTIVE_RESCALE_TRIGGER_MAX_CHECKPOINT_FAILURES,
    ADAPTIVE_RESCALE_TRIGGER_MAX_DELAY,
    ADAPTIVE_SUBMISSION_RESOURCE_STABILIZATION_TIMEOUT,
    ADAPTIVE_SUBMISSION_RESOURCE_WAIT_TIMEOUT,
    JOBMANAGER_SCHEDULER,
    RESOURCEMANAGER_PROVIDER,
    SCHEDULER_MODE,
    SLOT_REQUEST_TIMEOUT,
)


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
    reactive = configuration.get(SCHEDULER_MODE) == "reactive"
    if configuration.get(JOBMANAGER_SCHEDULER) != "adaptive":
        if reactive:
            raise ConfigurationError("option 'scheduler-mode': reactive needs 'jobmanager.scheduler: adaptive'")
        return None
    if reactive and configuration.get(RESOURCEMANAGER_PROVIDER) == "process":
        raise ConfigurationError(
            "option 'scheduler-mode': a reactive job uses all available slots, and 'resourcemanager.provider: "
            "process' starts as many as jobs request; use one or the other"
        )

    def milliseconds(option: OptionKey[float], if_reactive: float) -> float:
        unset = reactive and not configuration.is_set(option)
        return if_reactive if unset else configuration.get(option) * 1000

    wait = milliseconds(ADAPTIVE_SUBMISSION_RESOURCE_WAIT_TIMEOUT, -1)
    return AdaptiveSettings(
        reactive,
        wait if wait >= 0 else None,
        milliseconds(ADAPTIVE_SUBMISSION_RESOURCE_STABILIZATION_TIMEOUT, 0),
        configuration.get(ADAPTIVE_EXECUTING_COOLDOWN_AFTER_RESCALING) * 1000,
        configuration.get(ADAPTIVE_EXECUTING_RESOURCE_STABILIZATION_TIMEOUT) * 1000,
    )


def rescale_settings(configuration: Configuration, has_checkpoints: bool) -> RescaleSettings:
    """Reads the settings of rescaling."""
    delay = configuration.get(ADAPTIVE_RESCALE_TRIGGER_MAX_DELAY)
    return RescaleSettings(
        configuration.get(SLOT_REQUEST_TIMEOUT) * 1000,
        configuration.get(ADAPTIVE_RESCALE_TRIGGER_MAX_CHECKPOINT_FAILURES),
        delay * 1000 if delay > 0 else None,
        has_checkpoints,
    )
