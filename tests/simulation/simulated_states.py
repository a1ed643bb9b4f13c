"""The states of simulated tasks in snapshots: written as files, acknowledged by their handles, and read back by them.

The job manager sees what real tasks acknowledge, and decides which files a task is restored from. What the task takes
of these follows the rules of `core.snapshot.tables.redistribution`, as in `checkpointing.restoring`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from inputs import key_group
from simulated_disk import SimulatedDisk

from millstream.core.jobs.ids import OperatorId
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.keys import key_groups
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.records.types import LONG
from millstream.core.snapshot import OperatorSnapshot, StateFile, StateSnapshot
from millstream.core.snapshot.metadata import operator_json
from millstream.core.snapshot.metadata.types_json import type_to_json
from millstream.core.snapshot.tables.redistribution import dealt, is_dealt
from millstream.taskmanager.worker.checkpointing import in_flight
from millstream.taskmanager.worker.checkpointing.in_flight import Side, state_name

_KEY = type_to_json(LONG)
EDGE = "0"
"""The name of the only edge that leads out of a vertex."""


@dataclass(slots=True)
class Captured:
    """What a task has at a barrier: nothing of it is changed any more."""

    states: dict[StateKind, Any]
    """Lists of elements; of keyed states, entries by key, and timers by the record that has set them."""
    in_flight: dict[str, list[tuple[int, int, int, Any]]] = field(default_factory=dict)
    """By the vertex that sent them."""


def write(disk: SimulatedDisk, deployment: TaskDeployment, location: str, captured: Captured) -> bytes:
    """Writes the files; returns what the task acknowledges."""

    def stored(operator: str, name: str, kind: StateKind, content: Any) -> StateSnapshot:
        path = f"{operator}/{name}/part-{deployment.subtask}"
        checksum, groups, rows = disk.write_file(location, path, content), _owned(deployment), len(content)
        start, end = (groups.start, groups.stop) if kind.keyed else (None, None)
        file = StateFile(path, deployment.subtask, start, end, rows, rows, checksum)
        return StateSnapshot(name, kind, key_type=_KEY if kind.keyed else None, files=(file,))

    own = [stored(deployment.vertex_id, kind.value, kind, content) for kind, content in captured.states.items()]
    operators = [_operator(deployment, deployment.vertex_id, own)]
    for producer, elements in captured.in_flight.items():
        name = state_name(EDGE, Side.RECEIVED)
        operators.append(_operator(deployment, producer, [stored(producer, name, StateKind.IN_FLIGHT, elements)]))
    return operator_json.operators_to_json(operators)


def _operator(deployment: TaskDeployment, operator: str, states: Iterable[StateSnapshot]) -> OperatorSnapshot:
    parallelism, most = deployment.parallelism, deployment.max_parallelism
    return OperatorSnapshot(OperatorId(operator), operator, operator, parallelism, most, tuple(states))


def _owned(deployment: TaskDeployment) -> range:
    return key_groups.key_group_range(deployment.subtask, deployment.max_parallelism, deployment.parallelism)


class Restored:
    """What one task is restored from."""

    def __init__(self, disk: SimulatedDisk, deployment: TaskDeployment) -> None:
        operators = ()
        if deployment.restored_checkpoint_id and deployment.restore:
            operators = operator_json.operators_from_json(deployment.restore, deployment.task_name)
        self.is_any = bool(deployment.restored_checkpoint_id)
        self.had_finished = bool(operators) and all(operator.finished for operator in operators)
        self._deployment = deployment
        self._parts: dict[StateKind, list[tuple[str, bool, list[Any]]]] = {}
        for operator in operators:
            for state in operator.states:
                contents = [disk.read_file(deployment.restore_location, file) for file in state.files]
                share = is_dealt(state.kind, operator.parallelism, deployment.parallelism)
                self._parts.setdefault(state.kind, []).append((state.name, share, contents))

    def own(self, kind: StateKind) -> list[Any]:
        """The elements that this subtask takes over."""
        taken: list[Any] = []
        for _, share, contents in self._parts.get(kind, ()):
            elements = [element for part in contents for element in part]
            subtask, parallelism = self._deployment.subtask, self._deployment.parallelism
            taken += dealt(elements, subtask, parallelism) if share else elements
        return taken

    def everyones(self, kind: StateKind) -> list[Any]:
        """Also those that others take over, as far as this subtask sees them."""
        return [element for _, _, contents in self._parts.get(kind, ()) for part in contents for element in part]

    def keyed(self, kind: StateKind) -> list[tuple[Any, Any]]:
        """The entries of the key groups that this subtask owns."""
        owned, most = _owned(self._deployment), self._deployment.max_parallelism
        parts = [part for _, _, contents in self._parts.get(kind, ()) for part in contents]
        return [(key, value) for part in parts for key, value in part.items() if key_group(_key(key), most) in owned]

    def in_flight(self) -> list[Any]:
        """The batches that this subtask sends again."""
        states = ((name, [e for part in contents for e in part]) for name, _, contents in self._of_channels())
        shares = in_flight.share_of(states, self._deployment.subtask, self._deployment.parallelism)
        return [rows for share in shares.values() for _, rows in share]

    def _of_channels(self) -> list[tuple[str, bool, list[Any]]]:
        return self._parts.get(StateKind.IN_FLIGHT, [])


def _key(entry: Any) -> int:
    """A timer belongs to the key of its record."""
    key: int = entry if isinstance(entry, int) else entry.key
    return key
