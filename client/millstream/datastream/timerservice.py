"""`TimerService`: the clocks that a process function reads, and the timers that it registers."""

from __future__ import annotations

from abc import ABC, abstractmethod


class TimerService(ABC):
    """Reads the clocks and registers timers. A timer belongs to a key; there is one for each key and time."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Returns the processing time, in milliseconds since the Unix epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Returns the event time of the operator in milliseconds; -2^63 before the first watermark."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Registers a timer: `on_timer` is called when the processing time has reached the timestamp.

        Raises an error on a stream without keys.
        """

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Registers a timer: `on_timer` is called when the watermark has reached the timestamp.

        Raises an error on a stream without keys.
        """

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Deletes the processing-time timer of `timestamp`; does nothing when there is none."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Deletes the event-time timer of `timestamp`; does nothing when there is none."""
