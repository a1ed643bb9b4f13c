"""The settings of one job, from those of the cluster and its own."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from millstream.core.jobs.graph import JobGraph
from millstream.core.settings.configuration import Configuration
from millstream.jobmanager.adaptive.settings import (
    AdaptiveSettings,
    RescaleSettings,
    adaptive_settings,
    rescale_settings,
)
from millstream.jobmanager.autoscaler.settings import AutoscalerSettings, autoscaler_settings
from millstream.jobmanager.checkpoints.settings import CheckpointSettings
from millstream.jobmanager.failover.settings import RestartSettings, restart_settings, same_error_limit
from millstream.jobmanager.restore_points import Led
from millstream.jobmanager.restoring.starting_snapshot import RecoverySettings


class JobSettings(Struct, frozen=True):
    """All options that the job manager reads for a job, validated."""

    configuration: Configuration
    checkpoints: CheckpointSettings
    restart: RestartSettings
    recovery: RecoverySettings | None
    rescaling: RescaleSettings
    adaptive: AdaptiveSettings | None
    autoscaler: AutoscalerSettings | None
    slot_timeout: float
    takeover_timeout: float
    same_error_limit: int
    history_size: int
    attempts_size: int
    state_backend: str
    starting_snapshot: str
    """The snapshot that the job was configured to start from; empty: none."""

    @staticmethod
    def read(cluster: Configuration, graph: JobGraph, led: Led, checkpoint_directory: str) -> JobSettings:
        """Reads the settings of a job. Raises MillstreamError when one is invalid.

        Without a directory of its own, it keeps its checkpoints in `checkpoint_directory`, if there is one.
        """
        configuration = cluster.for_job(graph.configuration)
        slot_timeout = configuration.seconds("slot.request.timeout")
        checkpoints = CheckpointSettings.from_configuration(configuration)
        if checkpoint_directory:
            checkpoints = checkpoints.kept_in(checkpoint_directory)
        recovery = RecoverySettings.from_configuration(configuration)
        return JobSettings(
            configuration=configuration,
            checkpoints=checkpoints,
            restart=restart_settings(configuration, checkpoints.enabled),
            recovery=RecoverySettings.of_pointers(led.left) if led.left else recovery,
            rescaling=rescale_settings(configuration, checkpoints.enabled),
            adaptive=adaptive_settings(configuration),
            autoscaler=autoscaler_settings(configuration),
            slot_timeout=slot_timeout,
            takeover_timeout=configuration.seconds("jobmanager.takeover.timeout"),
            same_error_limit=same_error_limit(configuration),
            history_size=configuration.integer("web.exception-history-size"),
            attempts_size=configuration.integer("jobmanager.execution.attempts-history-size"),
            state_backend=configuration.string("state.backend.type"),
            starting_snapshot=configuration.string("execution.state-recovery.path"),
        )

    def worker_options(self, graph: JobGraph) -> Mapping[str, str]:
        """The options that the workers of the job are started with."""
        return {**graph.configuration, **self.checkpoints.agreed_options()}
