"""How a job's parallelism follows the slots that there are: Flink's options of the adaptive scheduler, checked."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import Configuration

_PREFIX = "jobmanager.adaptive-scheduler"


class RescaleSettings(Struct, frozen=True):
    """How a rescale comes to its checkpoint, and how long it waits for slots; of all jobs, in milliseconds."""

    slot_timeout_ms: float = 300_000
    checkpoint_failures: int = 2
    """That many checkpoints may fail before the job is rescaled from its last one."""
    checkpoint_timeout_ms: float | None = None
    """How long its own checkpoint is waited for; None: for as long as it may take."""
    has_checkpoints: bool = True
    """Whether the job takes checkpoints by itself: there is a last one to go back to."""


class AdaptiveSettings(Struct, frozen=True):
    """Of a job that runs in the slots that there are; times in milliseconds."""

    reactive: bool = False
    wait_timeout_ms: float | None = 300_000
    """How long it waits for all slots that it can use before it runs in fewer, or fails; None: forever."""
    stabilization_ms: float = 10_000
    """How long it waits for more slots when it could run in those that there are."""
    cooldown_ms: float = 30_000
    """After a rescale, before the next one is thought of."""
    executing_stabilization_ms: float = 60_000
    """How long a running job waits for more slots before it is rescaled to those that there are."""


def adaptive_settings(configuration: Configuration) -> AdaptiveSettings | None:
    """Of a job by its options and the cluster's; None when its parallelism does not follow the slots."""
    reactive = configuration.string("scheduler-mode") == "reactive"
    if configuration.string("jobmanager.scheduler") != "adaptive":
        if reactive:
            raise ConfigurationError("option 'scheduler-mode': reactive needs 'jobmanager.scheduler: adaptive'")
        return None
    if reactive and configuration.string("resourcemanager.provider") == "process":
        raise ConfigurationError(
            "option 'scheduler-mode': a reactive job uses all slots that there are, and 'resourcemanager.provider: "
            "process' starts as many as jobs want; use one or the other"
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
    """Of any job."""
    delay = configuration.seconds(f"{_PREFIX}.rescale-trigger.max-delay")
    return RescaleSettings(
        configuration.seconds("slot.request.timeout") * 1000,
        configuration.integer(f"{_PREFIX}.rescale-trigger.max-checkpoint-failures"),
        delay * 1000 if delay > 0 else None,
        has_checkpoints,
    )
