"""A savepoint as it is planned: operators, their states, and what each state is made of. Pure; on the driver.

Everything that can be wrong without looking at rows is refused here, when it is requested.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.keys.key_groups import HIGHEST_MAX_PARALLELISM
from millstream.core.snapshot.metadata.model import (
    OperatorSnapshot,
    SnapshotMetadata,
    StateSnapshot,
    enumerator_property,
)
from millstream.core.snapshot.metadata.types_json import describe_json, holds_pickled
from millstream.spark.errors import SavepointWriteError, nearest
from millstream.spark.operator_identifier import OperatorIdentifier
from millstream.spark.writing.identity import KeepOnConflict, Rule


class AsItIs(Struct, frozen=True):
    """Files of another snapshot, byte for byte; and the operator there."""

    source: StateSnapshot
    operator: str


class FromRows(Struct, frozen=True):
    """Rows of DataFrames (`jobs.Rows`), of which the later ones are merged into the first by the rule."""

    rows: tuple[Any, ...]
    rule: Rule = KeepOnConflict.NEITHER


Content = AsItIs | FromRows


class PlannedState(Struct, frozen=True):
    """A state without files, and what they will hold."""

    state: StateSnapshot
    content: Content


class PlannedOperator(Struct):
    """An operator, and its states by name."""

    identifier: OperatorIdentifier
    name: str
    parallelism: int
    max_parallelism: int
    states: dict[str, PlannedState]
    fillings: list[Any]
    """What functions fill (`filling.Filling`): their states are known once they have run."""
    finished: bool = False
    stored_max_parallelism: int | None = None
    """That of the snapshot that its untouched states come from."""

    @property
    def is_rehashed(self) -> bool:
        """Whether keyed state that it had is in other key groups now."""
        return self.stored_max_parallelism not in (None, self.max_parallelism)


class Draft:
    """All of a savepoint but its files."""

    def __init__(self, max_parallelism: int | None, job_name: str = "") -> None:
        if max_parallelism is not None and not 1 <= max_parallelism <= HIGHEST_MAX_PARALLELISM:
            raise SavepointWriteError(
                f"the max parallelism is {max_parallelism}, and must be from 1 to {HIGHEST_MAX_PARALLELISM}"
            )
        self.max_parallelism = max_parallelism
        self.job_name = job_name
        self.operators: dict[str, PlannedOperator] = {}
        self.properties: dict[str, str] = {}

    @staticmethod
    def of(metadata: SnapshotMetadata, max_parallelism: int | None) -> Draft:
        """All of a snapshot as it is; with a max parallelism, in other key groups."""
        draft = Draft(max_parallelism, metadata.job_name)
        draft.properties = dict(metadata.properties)
        for operator in metadata.operators:
            owner = operator.uid or operator.operator_id
            planned = {
                state.name: PlannedState(replace(state, files=()), AsItIs(state, owner)) for state in operator.states
            }
            most = max_parallelism or operator.max_parallelism
            draft.operators[operator.operator_id] = PlannedOperator(
                OperatorIdentifier(operator.operator_id, operator.uid), operator.name, min(operator.parallelism, most),
                most, planned, [], operator.finished, operator.max_parallelism,
            )  # fmt: skip
        return draft

    def operator(self, given: OperatorIdentifier | str) -> PlannedOperator:
        """One that is there."""
        wanted = OperatorIdentifier.of(given)
        found = next(
            (o for o in self.operators.values() if wanted.uid is not None and o.identifier.uid == wanted.uid),
            self.operators.get(wanted.operator_id),
        )
        if found is None:
            known = [operator.identifier.name for operator in self.operators.values()]
            raise SavepointWriteError(f"there is no operator '{wanted.name}': {nearest(wanted.name, known)}")
        return found

    def state(self, given: OperatorIdentifier | str, name: str) -> tuple[PlannedOperator, PlannedState]:
        """One that is there."""
        operator = self.operator(given)
        if name not in operator.states:
            detail = f"the operator '{operator.identifier.name}' has no state '{name}'"
            raise SavepointWriteError(f"{detail}: {nearest(name, operator.states)}")
        return operator, operator.states[name]

    def operator_for(self, given: OperatorIdentifier | str) -> PlannedOperator:
        """One that is there, or a new one."""
        wanted = OperatorIdentifier.of(given)
        for operator in self.operators.values():
            if wanted.operator_id == operator.identifier.operator_id or (wanted.uid and wanted == operator.identifier):
                return operator
        if self.max_parallelism is None:
            known = [operator.max_parallelism for operator in self.operators.values()]
            most = max(known, default=128)
        else:
            most = self.max_parallelism
        new = PlannedOperator(wanted, wanted.name, 1, most, {}, [])
        self.operators[wanted.operator_id] = new
        return new

    def put(self, operator: PlannedOperator, state: StateSnapshot, content: Content) -> None:
        """A state, in place of one of its name."""
        other = next(
            (p.state for p in operator.states.values()
             if p.state.kind.keyed and p.state.name != state.name and p.state.key_type != state.key_type),
            None,
        )  # fmt: skip
        if state.kind.keyed and other is not None and state.key_type is not None and other.key_type is not None:
            raise SavepointWriteError(
                f"the keys of state '{state.name}' are {describe_json(state.key_type)}, and those of "
                f"'{other.name}', of the same operator '{operator.identifier.name}', are "
                f"{describe_json(other.key_type)}: an operator has keys of one type"
            )
        operator.states[state.name] = PlannedState(state, content)

    def remove_operator(self, given: OperatorIdentifier | str) -> None:
        """With all its states, and what its split enumerator had if it is a source."""
        operator = self.operator(given)
        del self.operators[operator.identifier.operator_id]
        self.properties.pop(_property(operator.identifier), None)

    def rename_operator(self, given: OperatorIdentifier | str, new: OperatorIdentifier | str) -> None:
        """The same states, under another uid."""
        operator, wanted = self.operator(given), OperatorIdentifier.of(new)
        if wanted.operator_id in self.operators:
            raise SavepointWriteError(f"there is an operator '{wanted.name}' already: remove it first")
        self.operators = {
            (wanted.operator_id if known is operator else operator_id): known
            for operator_id, known in self.operators.items()
        }
        state = self.properties.pop(_property(operator.identifier), None)
        operator.identifier = wanted
        if state is not None:
            self.properties[_property(wanted)] = state

    def remove_state(self, given: OperatorIdentifier | str, name: str) -> None:
        """With all its rows."""
        operator, _ = self.state(given, name)
        del operator.states[name]

    def rename_state(self, given: OperatorIdentifier | str, name: str, new: str) -> None:
        """The same rows, under another name."""
        operator, planned = self.state(given, name)
        if new in operator.states:
            raise SavepointWriteError(f"the operator '{operator.identifier.name}' has a state '{new}' already")
        operator.states = {
            (new if state is planned else known): state for known, state in operator.states.items()
        }
        operator.states[new] = replace(planned, state=replace(planned.state, name=new))

    def set_enumerator(self, identifier: OperatorIdentifier, state: str) -> None:
        """What the split enumerator of a source continues with."""
        self.properties[_property(identifier)] = state

    def check(self, load_pickles: bool) -> None:
        """Refuses what cannot be written, before anything is."""
        for operator in self.operators.values():
            for planned in operator.states.values():
                keys, content = planned.state.key_type, planned.content
                hashed = operator.is_rehashed or not isinstance(content, AsItIs)
                if keys is not None and holds_pickled(keys) and hashed and not load_pickles:
                    raise SavepointWriteError(
                        f"operator '{operator.identifier.name}', state '{planned.state.name}': its keys are pickled, "
                        "and a key's group follows from its value: allow it with load_pickles=True, if you trust "
                        "their author"
                    )

    def metadata_operators(self, states: dict[tuple[str, str], StateSnapshot]) -> tuple[OperatorSnapshot, ...]:
        """The operators, with their states as they were written, by operator id and name."""
        return tuple(
            OperatorSnapshot(
                operator.identifier.operator_id, operator.identifier.uid, operator.name, operator.parallelism,
                operator.max_parallelism,
                tuple(state for (owner, _), state in states.items() if owner == operator.identifier.operator_id),
                operator.finished,
            )
            for operator in self.operators.values()
        )  # fmt: skip


def _property(identifier: OperatorIdentifier) -> str:
    return enumerator_property(identifier.uid, identifier.operator_id)
