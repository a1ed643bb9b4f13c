"""Where task managers come from when the cluster needs more slots.

A provider receives the number of task managers required that have not registered yet, and which registered ones to end.
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
        """Sets how many task managers should be starting: in all, replacing the number of earlier calls."""

    def registered(self, token: str) -> bool:
        """A task manager registered with this token: whether it is the provider's, to be released when idle."""

    def lost(self, token: str) -> None:
        """The session with the task manager of this token ended."""

    def release(self, token: str) -> None:
        """The shutdown of the task manager was requested: ensures that it ends."""

    async def stop(self) -> None:
        """Ends everything that was started. May be called twice."""


class StandaloneProvider:
    """Task managers are started by someone else: there is nothing to do but wait."""

    async def start(self, resource_manager_address: str) -> None:
        """Nothing to prepare."""

    def request(self, number: int) -> None:
        """Does nothing: the job's message shows the operator that slots are missing."""

    def registered(self, token: str) -> bool:
        """None is ours."""
        return False

    def lost(self, token: str) -> None:
        """None is ours."""

    def release(self, token: str) -> None:
        """None is ours."""

    async def stop(self) -> None:
        """Nothing was started."""
