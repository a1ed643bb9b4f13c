"""The settings of one job, from those of the cluster and its own."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from millstream.core.jobs.graph import JobGraph
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import STATE_BACKEND_TYPE, STATE_RECOVERY_PATH
from millstream.core.settings.options.scheduling import SLOT_REQUEST_TIMEOUT
from millstream.core.settings.options.services import JOBMANAGER_TAKEOVER_TIMEOUT
from millstream.core.settings.options.tasks import (
    JOBMANAGER_EXECUTION_ATTEMPTS_HISTORY_SIZE,
    WEB_EXCEPTION_HISTORY_SIZE,
)
from millstream.jobmanager.adaptive.settings import (
    adaptive_settings,
    rescale_settings,
)
from millstream.jobmanager.autoscaler.settings import AutoscalerSettings, autoscaler_settings
from millstream.jobmanager.checkpoints.settings import CheckpointSettings
from millstream.jobmanager.failover.settings import RestartSettings, restart_settings, same_error_limit
from millstream.jobmanager.job_master.settings import JobMasterSettings
from millstream.jobmanager.restore_points import Led
from millstream.jobmanager.restoring.starting_snapshot import RecoverySettings


class JobSettings(Struct, frozen=True):
    """All options that the job manager reads for a job, validated."""

    configuration: Configuration
    checkpoints: CheckpointSettings
    restart: RestartSettings
    recovery: RecoverySettings | None
    master: JobMasterSettings
    autoscaler: AutoscalerSettings | None
    takeover_timeout: float
    state_backend: str
    starting_snapshot: str
    """The snapshot that the job was configured to start from; empty: none."""

    @staticmethod
    def read(cluster: Configuration, graph: JobGraph, led: Led, checkpoint_directory: str) -> JobSettings:
        """Reads the settings of a job. Raises MillstreamError when one is invalid.

        Without a directory of its own, it keeps its checkpoints in `checkpoint_directory`, if there is one.
        """
        configuration = cluster.for_job(graph.configuration)
        checkpoints = CheckpointSettings.from_configuration(configuration)
        if checkpoint_directory:
            checkpoints = checkpoints.kept_in(checkpoint_directory)
        recovery = RecoverySettings.from_configuration(configuration)
        return JobSettings(
            configuration=configuration,
            checkpoints=checkpoints,
            restart=restart_settings(configuration, checkpoints.enabled),
            recovery=RecoverySettings.of_pointers(led.left) if led.left else recovery,
            master=JobMasterSettings(
                slot_timeout=configuration.get(SLOT_REQUEST_TIMEOUT),
                history_size=configuration.get(WEB_EXCEPTION_HISTORY_SIZE),
                same_error_limit=same_error_limit(configuration),
                attempts_size=configuration.get(JOBMANAGER_EXECUTION_ATTEMPTS_HISTORY_SIZE),
                rescaling=rescale_settings(configuration, checkpoints.enabled),
                adaptive=adaptive_settings(configuration),
            ),
            autoscaler=autoscaler_settings(configuration),
            takeover_timeout=configuration.get(JOBMANAGER_TAKEOVER_TIMEOUT),
            state_backend=configuration.get(STATE_BACKEND_TYPE),
            starting_snapshot=configuration.get(STATE_RECOVERY_PATH),
        )

    def worker_options(self, graph: JobGraph) -> Mapping[str, str]:
        """The options that the workers of the job are started with."""
        return {**graph.configuration, **self.checkpoints.agreed_options()}
