"""When a file sink starts a new part file, and what its part files are called. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.common.time import Interval, plain_milliseconds
from millstream.core.errors import InvalidProgramError


@dataclass(frozen=True, slots=True)
class RollingPolicy:
    """Limits of one part file; None is no limit. Times are also checked while there are no records."""

    part_size: int | None = None
    rollover_seconds: float | None = None
    inactivity_seconds: float | None = None
    on_checkpoint: bool = False

    @staticmethod
    def default_rolling_policy(
        part_size: int = 128 * 1024 * 1024,
        rollover_interval: Interval = 60 * 1000,
        inactivity_interval: Interval = 60 * 1000,
    ) -> RollingPolicy:
        """Returns a policy that ends a part file by size, by age, and by time without records.

        `part_size` is in bytes; `rollover_interval` and `inactivity_interval` are milliseconds or durations.
        Raises `InvalidProgramError` for a size below one byte.
        """
        if part_size < 1:
            raise InvalidProgramError(f"a rolling policy's part_size must be at least 1 byte, got {part_size}")
        return RollingPolicy(part_size, interval_seconds(rollover_interval), interval_seconds(inactivity_interval))

    @staticmethod
    def on_checkpoint_rolling_policy() -> RollingPolicy:
        """With every checkpoint, and only then."""
        return RollingPolicy(on_checkpoint=True)

    def is_full(self, size: int) -> bool:
        """Whether a part of this size takes no more records."""
        return self.part_size is not None and size >= self.part_size

    def is_over(self, opened: float, last_write: float, now: float) -> bool:
        """Returns whether a part, opened at `opened` and last written to at `last_write`, ends at the time `now`."""
        return (self.rollover_seconds is not None and now - opened >= self.rollover_seconds) or (
            self.inactivity_seconds is not None and now - last_write >= self.inactivity_seconds
        )


def interval_seconds(interval: Interval) -> float:
    """The length of an interval."""
    milliseconds = plain_milliseconds(interval)
    if not isinstance(milliseconds, int | float) or milliseconds <= 0:
        raise InvalidProgramError(
            f"a file sink's interval must be milliseconds or a duration, and above 0, got {interval!r}"
        )
    return milliseconds / 1000


@dataclass(frozen=True, slots=True)
class OutputFileConfig:
    """A part file is called `<prefix>-<writer>-<number><suffix>`; each attempt of a subtask is a writer of its own."""

    part_prefix: str = "part"
    part_suffix: str = ""

    def __post_init__(self) -> None:
        for name in (self.part_prefix, self.part_suffix):
            if "/" in name or "\0" in name:
                raise InvalidProgramError(f"a part file's prefix and suffix cannot hold a path, got {name!r}")
        if not self.part_prefix or self.part_prefix.startswith((".", "_")):
            raise InvalidProgramError(
                f"a part file's prefix must not be empty or start with '.' or '_' (such files are passed over when "
                f"read), got {self.part_prefix!r}"
            )

    @staticmethod
    def builder() -> OutputFileConfigBuilder:
        """PyFlink's builder."""
        return OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """What part files begin with."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """What they end with."""
        return self.part_suffix

    def part_name(self, writer: str, number: int) -> str:
        """Returns the visible name of part `number` of the writer `writer`."""
        return f"{self.part_prefix}-{writer}-{number}{self.part_suffix}"


class OutputFileConfigBuilder:
    """PyFlink's way to make an `OutputFileConfig`."""

    def __init__(self) -> None:
        self._prefix = "part"
        self._suffix = ""

    def with_part_prefix(self, prefix: str) -> OutputFileConfigBuilder:
        """Sets the prefix."""
        self._prefix = prefix
        return self

    def with_part_suffix(self, suffix: str) -> OutputFileConfigBuilder:
        """Sets the suffix."""
        self._suffix = suffix
        return self

    def build(self) -> OutputFileConfig:
        """The configuration."""
        return OutputFileConfig(self._prefix, self._suffix)


setattr(OutputFileConfig, "OutputFileConfigBuilder", OutputFileConfigBuilder)  # noqa: B010  # where PyFlink has it, too
