"""The settings of a JobMaster, and what it continues from."""

from __future__ import annotations

from msgspec import Struct, field

from millstream.jobmanager.adaptive.settings import AdaptiveSettings, RescaleSettings
from millstream.jobmanager.job_master.execution_graph import LatestAttempt


class JobMasterSettings(Struct, frozen=True):
    """The validated settings of one job. `slot_timeout` is in seconds."""

    slot_timeout: float = 300.0
    history_size: int = 16
    """The number of failures that are remembered."""
    same_error_limit: int = 3
    attempts_size: int = 16
    """The number of earlier attempts of a subtask that are remembered."""
    rescaling: RescaleSettings = field(default_factory=RescaleSettings)
    adaptive: AdaptiveSettings | None = None
    """None for a job that waits for all its slots."""


class Succeeding(Struct, frozen=True):
    """A job that another job manager led: the numbers of its latest attempts, and how long to wait for its tasks."""

    latest: LatestAttempt
    wait: float
    restarts: int = 0
    """The number of restarts that the job has had."""
    has_run: bool = True
    """Whether its tasks may have been deployed."""
    may_start_again: bool = True
    """Whether it may restart if its tasks are not found: it has a checkpoint, or a restart strategy."""
