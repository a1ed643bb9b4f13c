"""The options that the barriers of each kind of snapshot carry, from the job's settings."""

from __future__ import annotations

from millstream.core.jobs.barriers import Alignment, StopMode
from millstream.jobmanager.checkpoints.events import SavepointRequested
from millstream.jobmanager.checkpoints.model import SavepointFormat, SnapshotOptions
from millstream.jobmanager.checkpoints.settings import CheckpointingMode, CheckpointSettings


def checkpoint_options(settings: CheckpointSettings, full: bool = False) -> SnapshotOptions:
    """Returns the options of periodic, final and requested checkpoints."""
    if settings.mode is CheckpointingMode.AT_LEAST_ONCE:
        return SnapshotOptions(alignment=Alignment.AT_LEAST_ONCE, full=full)
    if settings.unaligned and not settings.aligned_timeout_ms:
        return SnapshotOptions(alignment=Alignment.UNALIGNED, full=full)
    return SnapshotOptions(aligned_timeout_ms=settings.aligned_timeout_ms if settings.unaligned else None, full=full)


def savepoint_options(settings: CheckpointSettings, wanted: SavepointRequested) -> SnapshotOptions:
    """Returns the options of a savepoint, which holds no channel state and is never unaligned."""
    stop = (StopMode.DRAIN if wanted.drain else StopMode.SUSPEND) if wanted.stop else StopMode.NONE
    loose = settings.mode is CheckpointingMode.AT_LEAST_ONCE and not wanted.stop
    return SnapshotOptions(
        is_savepoint=True,
        alignment=Alignment.AT_LEAST_ONCE if loose else Alignment.ALIGNED,
        full=True,
        stop=stop,
        native=wanted.savepoint_format is SavepointFormat.NATIVE,
        target_directory=wanted.target_directory or settings.savepoint_directory,
    )
