"""The options of a checkpoint, which job managers set and tasks carry out, and the barrier that carries them."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class StopMode(StrEnum):
    """The action of tasks after their snapshot."""

    NONE = "NONE"  # continue
    SUSPEND = "SUSPEND"  # emit nothing more, end when the snapshot is complete
    DRAIN = "DRAIN"  # first advance event time to its end, then as SUSPEND


class Alignment(StrEnum):
    """How a task with several inputs treats barriers."""

    ALIGNED = "ALIGNED"  # exactly-once: channels that delivered theirs wait for the others
    UNALIGNED = "UNALIGNED"  # exactly-once without waiting: barriers overtake records, which become part of it
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


class CheckpointOptions(Struct, frozen=True, kw_only=True):
    """The options of a checkpoint or savepoint."""

    is_savepoint: bool = False
    """Whether the user owns it."""
    alignment: Alignment = Alignment.ALIGNED
    aligned_timeout_ms: int | None = None
    """The age at which an aligned checkpoint becomes unaligned."""
    full: bool = False
    """Whether it must not refer to files of earlier checkpoints."""
    stop: StopMode = StopMode.NONE
    native: bool = False
    """Whether a savepoint is in the state backend's own files, not in the portable format."""
    oldest_base: int = 0
    """The oldest checkpoint whose files it may refer to: older ones may be deleted."""

    @property
    def aligned(self) -> bool:
        """Whether a channel that has delivered its barrier is blocked until the others have."""
        return self.alignment is not Alignment.AT_LEAST_ONCE

    @property
    def unaligned(self) -> bool:
        """Whether the barrier overtakes records at once."""
        return self.alignment is Alignment.UNALIGNED

    @property
    def may_overtake(self) -> bool:
        """Whether the barrier overtakes records where it can, at once or when it is old enough."""
        return self.unaligned or self.aligned_timeout_ms is not None


class Barrier(CheckpointOptions, frozen=True):
    """Divides the stream: records before it belong to the checkpoint, records after it do not.

    It carries the options of the checkpoint, because the coordinator triggers only sources.
    """

    checkpoint_id: int
    timestamp: int
    """When the coordinator triggered it, in milliseconds."""
    location: str = ""
    """The folder for state files."""
