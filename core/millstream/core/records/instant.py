"""`Instant`: a point in time, with PyFlink's name. In columns it stands as a `datetime` in UTC, like any moment."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True, order=True, repr=False)
class Instant:
    """A point in time: whole seconds since 1970 began in UTC, and the nanoseconds behind them."""

    seconds: int
    nanos: int

    def to_epoch_milli(self) -> int:
        """Milliseconds since 1970 began in UTC."""
        return self.seconds * 1000 + self.nanos // 1_000_000

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Returns the instant `epoch_milli` milliseconds after the Unix epoch."""
        seconds, milliseconds = divmod(epoch_milli, 1000)
        return Instant(seconds, milliseconds * 1_000_000)

    def to_datetime(self) -> datetime.datetime:
        """The same as a `datetime` in UTC; one with less than a microsecond has none, and raises a ValueError."""
        if self.nanos % 1000:
            raise ValueError(f"{self} has nanoseconds, and a datetime holds none")
        return _EPOCH + datetime.timedelta(seconds=self.seconds, microseconds=self.nanos // 1000)

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"
