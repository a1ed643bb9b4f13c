"""The state backends that `state.backend.type` chooses from."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from millstream.core.settings.configuration import Configuration
from millstream.taskmanager.worker.state.backend import StateBackend
from millstream.taskmanager.worker.state.heap import HashMapStateBackend


def _hashmap(configuration: Configuration) -> StateBackend:
    return HashMapStateBackend(configuration.boolean("execution.checkpointing.incremental"))


STATE_BACKENDS: Mapping[str, Callable[[Configuration], StateBackend]] = {"hashmap": _hashmap}
"""The backends by their name, each made from a job's configuration; the names are the option's choices."""


def state_backend(configuration: Configuration) -> StateBackend:
    """The one that a job is configured with."""
    return STATE_BACKENDS[configuration.string("state.backend.type")](configuration)
