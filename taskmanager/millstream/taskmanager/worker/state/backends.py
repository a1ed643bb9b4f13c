"""The state backends selected by `state.backend.type`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import CHECKPOINTING_INCREMENTAL, STATE_BACKEND_TYPE
from millstream.taskmanager.worker.state.backend import StateBackend
from millstream.taskmanager.worker.state.heap import HashMapStateBackend


def _hashmap(configuration: Configuration) -> StateBackend:
    return HashMapStateBackend(configuration.get(CHECKPOINTING_INCREMENTAL))


STATE_BACKENDS: Mapping[str, Callable[[Configuration], StateBackend]] = {"hashmap": _hashmap}
"""The backends by name, each created from a job's configuration; the names are the option's choices."""


def state_backend(configuration: Configuration) -> StateBackend:
    """The backend that the job's configuration selects."""
    return STATE_BACKENDS[configuration.get(STATE_BACKEND_TYPE)](configuration)
