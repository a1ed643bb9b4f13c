"""`TimerService`: the clocks that a process function can ask, and the timers that it can set."""

from __future__ import annotations

from abc import ABC, abstractmethod


class TimerService(ABC):
    """Timers belong to the key of the record or timer at hand, and are there once for each key and time."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The machine's time, in milliseconds since 1970 began in UTC."""

    @abstractmethod
    def current_watermark(self) -> int:
        """How far event time has come; the lowest number there is before the first watermark."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Has `on_timer` called once the machine's time has come to the timestamp."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Has `on_timer` called once the watermark has come to the timestamp."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Takes such a timer back; nothing happens if there is none."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Takes such a timer back; nothing happens if there is none."""
