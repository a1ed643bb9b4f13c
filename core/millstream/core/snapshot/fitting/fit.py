"""Compares a snapshot with a program: which state is restored, rejected, empty at the start, or dropped. Pure.

Operators meet by uid, or by id where the program gives none; states meet by name. A stored operator that the program
does not have, and a stored state that its operator can no longer hold, are unclaimed: a restore refuses them unless it
is configured to leave them behind. State that the program merely does not use stays in its operator, and in later
snapshots. Keyed state cannot change its max parallelism, and the operators of one task have one together.

The job manager decides by this when a job starts, and `run --dry-run` reports by it what the job manager will decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.jobs.graph import JobVertex, OperatorInfo
from millstream.core.snapshot.fitting.compatibility import CompatibilityKind, compare_state
from millstream.core.snapshot.metadata.model import (
    OperatorSnapshot,
    SnapshotMetadata,
    StateKind,
    StateSnapshot,
    TtlSettings,
    enumerator_property,
)

_UNDECLARED = frozenset({StateKind.SPLITS, StateKind.SINK_TRANSACTIONS, StateKind.TIMERS, StateKind.IN_FLIGHT})
"""The kinds of state that operators keep internally and functions never declare."""


class ProgramOperator(Struct, frozen=True):
    """An operator as the program has it now, with the states that it declares, which have no files.

    `holds` are the kinds of state that it can take over. With an `error`, what it declares is not known. A derived max
    parallelism, which the program did not set, gives way to that of stored keyed state. Operators of the same `task`
    are chained.
    """

    declared: OperatorSnapshot
    holds: frozenset[StateKind] = frozenset()
    error: str | None = None
    max_parallelism_derived: bool = False
    task: str = ""

    @staticmethod
    def of(
        vertex: JobVertex, info: OperatorInfo, states: tuple[StateSnapshot, ...] = (), error: str | None = None
    ) -> ProgramOperator:
        """An operator of a job, with what is known of the states that it declares."""
        declared = described(vertex, info, states)
        return ProgramOperator(declared, info.holds, error, vertex.max_parallelism_derived, vertex.id)


def described(vertex: JobVertex, info: OperatorInfo, states: tuple[StateSnapshot, ...] = ()) -> OperatorSnapshot:
    """An operator of a job, as a snapshot would describe it."""
    return OperatorSnapshot(info.id, info.uid or None, info.name, vertex.parallelism, vertex.max_parallelism, states)


class StateMatch(Enum):
    """The result for one state."""

    SAME = "same"
    COMPATIBLE = "compatible"
    INCOMPATIBLE = "incompatible"
    NEW = "new"
    KEPT = "kept"
    UNCLAIMED = "unclaimed"
    UNKNOWN = "unknown"


class OperatorMatch(Enum):
    """The result for one operator."""

    MATCHED = "matched"
    NEW = "new"
    UNCLAIMED = "unclaimed"


class StateFit(Struct, frozen=True):
    """One state: as stored, as declared (None where a side does not have it), and what becomes of it."""

    name: str
    match: StateMatch
    stored: StateSnapshot | None = None
    declared: StateSnapshot | None = None
    message: str = ""
    warnings: tuple[str, ...] = ()


class OperatorFit(Struct, frozen=True):
    """One operator: as stored, as the program has it, and what becomes of it.

    `problems` stand in a restore's way; `warnings` do not, and name where values are likely lost. `unknown` is the
    reason why it is not known what the operator declares. With `leaves_enumerator`, the state of a source's split
    enumerator is not taken over.
    """

    match: OperatorMatch
    stored: OperatorSnapshot | None
    declared: OperatorSnapshot | None
    states: tuple[StateFit, ...] = ()
    problems: tuple[str, ...] = ()
    unknown: str = ""
    leaves_enumerator: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def operator(self) -> OperatorSnapshot:
        """The operator, as the program has it if it does."""
        found = self.declared or self.stored
        assert found is not None, "an operator is on one side at least"
        return found

    @property
    def leaves_state(self) -> bool:
        """Whether some of its state is not restored."""
        unclaimed = any(state.match is StateMatch.UNCLAIMED for state in self.states)
        return self.match is OperatorMatch.UNCLAIMED or self.leaves_enumerator or unclaimed


class Fit(Struct, frozen=True):
    """All operators of both sides: first the program's, in its order, then those that only the snapshot has."""

    operators: tuple[OperatorFit, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """All problems that prevent a restore."""
        return tuple(problem for operator in self.operators for problem in operator.problems)

    @property
    def leaves_state(self) -> bool:
        """Whether some state is not restored."""
        return any(operator.leaves_state for operator in self.operators)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Everything that could not be compared."""
        return tuple(operator.unknown for operator in self.operators if operator.unknown)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Where a restore works, and values are lost all the same if something was renamed."""
        return tuple(warning for operator in self.operators for warning in operator.warnings)

    @property
    def restorable(self) -> bool:
        """Whether a restore is certain to succeed."""
        return not self.problems and not self.unknown


def fit(metadata: SnapshotMetadata, program: Sequence[ProgramOperator], allow_unclaimed: bool = False) -> Fit:
    """Compares a snapshot with a program. With `allow_unclaimed`, state that is not restored is not a problem."""
    matched = match_operators(metadata, [operator.declared for operator in program])
    known: list[OperatorFit] = []
    tasks: dict[str, OperatorSnapshot] = {}
    for operator, stored in zip(program, matched, strict=True):
        if stored is None:
            known.append(_new(operator))
            continue
        scales_with = stored
        if _brings_keyed_state(stored, operator):
            scales_with = tasks.setdefault(operator.task or operator.declared.operator_id, stored)
        known.append(_compared(stored, operator, scales_with, _has_enumerator(metadata, stored), allow_unclaimed))
    claimed = {stored.operator_id for stored in matched if stored is not None}
    left = [o for o in metadata.operators if o.operator_id not in claimed and _holds_anything(metadata, o)]
    new = [found.operator for found in known if found.match is OperatorMatch.NEW]
    return Fit((*known, *(_unclaimed(operator, new, allow_unclaimed) for operator in left)))


def match_operators(metadata: SnapshotMetadata, operators: Sequence[OperatorSnapshot]) -> list[OperatorSnapshot | None]:
    """Returns for each operator of a program the stored one that it restores."""
    by_uid = {operator.uid: operator for operator in metadata.operators if operator.uid is not None}
    by_id = {operator.operator_id: operator for operator in metadata.operators}
    return [by_uid.get(o.uid) if o.uid is not None else by_id.get(o.operator_id) for o in operators]


def _holds_anything(metadata: SnapshotMetadata, operator: OperatorSnapshot) -> bool:
    """Whether a stored operator has any rows, or a split enumerator's state."""
    return _has_enumerator(metadata, operator) or any(_has_rows(state) for state in operator.states)


def _has_enumerator(metadata: SnapshotMetadata, operator: OperatorSnapshot) -> bool:
    return enumerator_property(operator.uid, operator.operator_id) in metadata.properties


def _has_rows(state: StateSnapshot) -> bool:
    return any(file.rows for file in state.files)


def _new(operator: ProgramOperator) -> OperatorFit:
    states = tuple(StateFit(state.name, StateMatch.NEW, None, state) for state in operator.declared.states)
    return OperatorFit(OperatorMatch.NEW, None, operator.declared, states, unknown=_unknown(operator))


def _unclaimed(stored: OperatorSnapshot, new: Sequence[OperatorSnapshot], allowed: bool) -> OperatorFit:
    states = tuple(StateFit(state.name, StateMatch.UNCLAIMED, state) for state in stored.states)
    hint = "" if stored.uid else "; it had no uid, so its place in the job identified it"
    detail = f"operator {named(stored)} has state in the snapshot, and the program has no such operator{hint}"
    alike = [named(operator) for operator in new if _declares_all(operator, stored)]
    warnings = (
        [f"operator {named(stored)} is gone, and {' and '.join(alike)} with the same states is new: if it has another "
         "uid now, its state is lost; give it the uid that it had"]
        if alike else []
    )  # fmt: skip
    return OperatorFit(
        OperatorMatch.UNCLAIMED, stored, None, states, () if allowed else (detail,), warnings=tuple(warnings)
    )


def _declares_all(operator: OperatorSnapshot, stored: OperatorSnapshot) -> bool:
    """Whether an operator declares every state that a stored one has for its function."""
    wanted = {state.name: state for state in operator.states}
    had = [state for state in stored.states if state.kind not in _UNDECLARED and _has_rows(state)]
    return bool(had) and all(state.name in wanted and compare_state(state, wanted[state.name]).ok for state in had)


def _compared(
    stored: OperatorSnapshot, operator: ProgramOperator, scales_with: OperatorSnapshot, enumerates: bool, allowed: bool
) -> OperatorFit:
    declared = operator.declared
    wanted = {state.name: state for state in declared.states}
    had = {state.name: state for state in stored.states}
    states = [_compared_state(state, wanted.get(state.name), operator) for state in stored.states]
    states += [StateFit(name, StateMatch.NEW, None, state) for name, state in wanted.items() if name not in had]
    states = [_possibly_renamed(state, states) for state in states]
    problems = _scaling_problems(stored, operator, scales_with)
    for state in states:
        lost = state.match is StateMatch.UNCLAIMED and not allowed
        if state.match is StateMatch.INCOMPATIBLE or lost:
            problems.append(f"operator {named(declared)}, state '{state.name}': {state.message}")
    leaves_enumerator = enumerates and StateKind.SPLITS not in operator.holds
    if leaves_enumerator and not allowed:
        detail = "is no source any more, so its split enumerator's state would be lost"
        problems.append(f"operator {named(declared)} {detail}")
    warnings = [
        f"operator {named(declared)}, state '{state.name}': {warning}" for state in states for warning in state.warnings
    ]
    return OperatorFit(
        OperatorMatch.MATCHED, stored, declared, tuple(states), tuple(problems), _unknown(operator), leaves_enumerator,
        tuple(warnings),
    )  # fmt: skip


def _possibly_renamed(state: StateFit, states: Sequence[StateFit]) -> StateFit:
    """A state that is no longer used, beside new ones that its values could be read as."""
    if state.match is not StateMatch.KEPT or state.stored is None or not _has_rows(state.stored):
        return state
    new = [
        f"'{other.name}'"
        for other in states
        if other.match is StateMatch.NEW and other.declared is not None and other.stored is None
        and compare_state(state.stored, other.declared).ok
    ]  # fmt: skip
    if not new:
        return state
    detail = (
        f"it is not used, and {' and '.join(new)} of the same kind and type {'is' if len(new) == 1 else 'are'} "
        "new: if it was renamed, its values are lost to the program"
    )
    return replace(state, warnings=(detail,))


def _scaling_problems(stored: OperatorSnapshot, operator: ProgramOperator, scales_with: OperatorSnapshot) -> list[str]:
    """`scales_with` is the first operator of the same task that brings keyed state."""
    declared, most = operator.declared, stored.max_parallelism
    if not _brings_keyed_state(stored, operator):
        return []
    detail = f"operator {named(declared)} was stored with max parallelism {most}, and"
    if most != declared.max_parallelism and not operator.max_parallelism_derived:
        sets = declared.max_parallelism
        return [f"{detail} the program sets {sets}: keyed state cannot change it; set it back, or do not set it"]
    if most != scales_with.max_parallelism:
        other = f"{named(scales_with)}, which runs in the same task, with {scales_with.max_parallelism}"
        return [f"{detail} {other}: start a new chain between them"]
    if most < declared.parallelism:
        return [f"{detail} the program runs it {declared.parallelism} times: lower its parallelism"]
    return []


def _brings_keyed_state(stored: OperatorSnapshot, operator: ProgramOperator) -> bool:
    """Whether its max parallelism is fixed; keyed state that is dropped does not matter."""
    return stored.holds_keyed_state and any(kind.keyed for kind in operator.holds)


def _compared_state(stored: StateSnapshot, declared: StateSnapshot | None, operator: ProgramOperator) -> StateFit:
    name = stored.name
    if declared is not None and not stored.files:
        return StateFit(name, StateMatch.NEW, stored, declared)
    if declared is not None:
        verdict = compare_state(stored, declared)
        parts = [verdict.message, _ttl_change(stored.ttl, declared.ttl)]
        message = "; ".join(part for part in parts if part)
        return StateFit(name, _MATCHES[verdict.kind], stored, declared, message, verdict.warnings)
    if operator.error is not None:
        return StateFit(name, StateMatch.UNKNOWN, stored)
    if stored.kind is not StateKind.IN_FLIGHT and stored.kind not in operator.holds:
        if not _has_rows(stored):
            return StateFit(name, StateMatch.KEPT, stored, message="is empty, and the operator cannot hold it any more")
        message = f"the operator holds no {stored.kind.value} state any more, so its rows would be lost"
        return StateFit(name, StateMatch.UNCLAIMED, stored, message=message)
    if stored.kind in _UNDECLARED:
        return StateFit(name, StateMatch.SAME, stored)
    return StateFit(name, StateMatch.KEPT, stored, message="not used in open(): kept as it is")


_MATCHES = {
    CompatibilityKind.SAME: StateMatch.SAME,
    CompatibilityKind.COMPATIBLE: StateMatch.COMPATIBLE,
    CompatibilityKind.INCOMPATIBLE: StateMatch.INCOMPATIBLE,
}


def _ttl_change(stored: TtlSettings | None, declared: TtlSettings | None) -> str:
    sides = [f"{side.ttl_ms} ms" if side is not None else "none" for side in (stored, declared)]
    return f"time-to-live changed from {sides[0]} to {sides[1]}" if sides[0] != sides[1] else ""


def _unknown(operator: ProgramOperator) -> str:
    return f"operator {named(operator.declared)}, states unknown: {operator.error}" if operator.error else ""


def named(operator: OperatorSnapshot) -> str:
    """The operator in messages."""
    return f"'{operator.uid}'" if operator.uid else f"'{operator.name}' ({operator.operator_id})"
