"""Where task managers come from when the cluster needs more slots.

A provider is told how many task managers are wanted that have not registered yet, and which registered ones to let go.
It is owned by the resource manager's loop. `StandaloneProvider` waits for others to start them; the one that starts
processes is in `process_provider`.
"""

from __future__ import annotations

from typing import Protocol


class ResourceProvider(Protocol):
    """Adds and removes task managers. No method but `start` and `stop` waits for anything."""

    async def start(self, resource_manager_address: str) -> None:
        """Called once, before all else, with the address that task managers are to register at."""

    def request(self, number: int) -> None:
        """So many task managers should be on their way: in all, replacing the number of earlier calls."""

    def registered(self, token: str) -> bool:
        """A task manager registered with this token: whether it is the provider's, to be released when idle."""

    def lost(self, token: str) -> None:
        """The session with the task manager of this token ended."""

    def release(self, token: str) -> None:
        """The task manager was told to shut down: see to it that it ends."""

    async def stop(self) -> None:
        """Ends everything that was started. May be called twice."""


class StandaloneProvider:
    """Task managers are started by someone else: there is nothing to do but wait."""

    async def start(self, resource_manager_address: str) -> None:
        """Nothing to prepare."""

    def request(self, number: int) -> None:
        """Whoever runs the cluster sees in the job's message that slots are missing."""

    def registered(self, token: str) -> bool:
        """None is ours."""
        return False

    def lost(self, token: str) -> None:
        """None is ours."""

    def release(self, token: str) -> None:
        """None is ours."""

    async def stop(self) -> None:
        """Nothing was started."""
