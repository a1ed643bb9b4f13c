"""How snapshots fit programs: matched, new, missing, compatible or refused."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from millstream.core.jobs.ids import JobId, OperatorId
from millstream.core.records import types as t
from millstream.core.snapshot import (
    OperatorSnapshot,
    SnapshotError,
    SnapshotKind,
    SnapshotMetadata,
    StateFile,
    StateKind,
    StateSnapshot,
    StateTypes,
    TtlSettings,
)
from millstream.core.snapshot.fitting.fit import Fit, OperatorMatch, ProgramOperator, StateMatch, fit
from millstream.core.snapshot.metadata.program_json import program_from_json, program_to_json

KEYED = frozenset(kind for kind in StateKind if kind.keyed)
FILE = StateFile("f.parquet", 0, 0, 128, 5, 9, "sha256:" + "0" * 64)


@dataclass
class Before:
    n: int


@dataclass
class After:
    n: int
    label: str = "none"


def state(name: str, value: Any = int, kind: StateKind = StateKind.VALUE, ttl: int | None = None) -> StateSnapshot:
    key = t.STRING if kind.keyed else None
    made = StateTypes(key, t.from_hint(value)).snapshot(name, kind)
    return replace(made, ttl=None if ttl is None else TtlSettings(ttl))


def full(made: StateSnapshot) -> StateSnapshot:
    groups = (0, 128) if made.kind.keyed else (None, None)
    return replace(made, files=(replace(FILE, key_group_start=groups[0], key_group_end=groups[1]),))


def operator(uid: str | None, *states: StateSnapshot, id: str = "", parallelism: int = 2, most: int = 128) -> Any:
    return OperatorSnapshot(OperatorId(id or f"id-{uid}"), uid, f"{uid} name", parallelism, most, states)


def snapshot(*operators: OperatorSnapshot, **properties: str) -> SnapshotMetadata:
    return SnapshotMetadata(1, JobId("job"), "job", 7, SnapshotKind.SAVEPOINT, 0, operators, properties)


def program(*operators: OperatorSnapshot, holds: frozenset[StateKind] = KEYED) -> list[ProgramOperator]:
    return [ProgramOperator(one, holds) for one in operators]


def matches(found: Fit) -> list[tuple[str | None, OperatorMatch, dict[str, StateMatch]]]:
    return [(o.operator.uid, o.match, {s.name: s.match for s in o.states}) for o in found.operators]


def test_operators_and_states_are_matched_by_uid_and_name() -> None:
    stored = snapshot(operator("a", full(state("x")), full(state("old"))), operator("gone", full(state("y"))))
    found = fit(stored, program(operator("a", state("x"), state("fresh")), operator("new", state("z"))))
    assert matches(found) == [
        ("a", OperatorMatch.MATCHED, {"x": StateMatch.SAME, "old": StateMatch.KEPT, "fresh": StateMatch.NEW}),
        ("new", OperatorMatch.NEW, {"z": StateMatch.NEW}),
        ("gone", OperatorMatch.UNCLAIMED, {"y": StateMatch.UNCLAIMED}),
    ]
    assert found.problems == ("operator 'gone' has state in the snapshot, and the program has no such operator",)
    assert not found.restorable
    assert fit(stored, program(operator("a", state("x"))), allow_unclaimed=True).restorable


def test_operators_without_uid_are_matched_by_id() -> None:
    stored = snapshot(operator(None, full(state("x")), id="17"))
    assert fit(stored, program(operator(None, state("x"), id="17"))).restorable
    found = fit(stored, program(operator(None, state("x"), id="18")))
    assert "it had no uid" in found.problems[0]
    assert not fit(stored, program(operator("a", state("x"), id="17"))).restorable


def test_operators_without_state_are_not_missed() -> None:
    empty = operator("a", state("x"))
    assert fit(snapshot(empty), []).restorable
    assert fit(snapshot(empty), []).operators == ()
    enumerated = snapshot(empty, **{"enumerator.a": "AAAA"})
    assert not fit(enumerated, []).restorable


@pytest.mark.parametrize(
    ("stored", "declared", "match", "message"),
    [
        (state("x", Before), state("x", After), StateMatch.INCOMPATIBLE, "another class with other fields"),
        (state("x", tuple[int, str]), state("x", tuple[int, str]), StateMatch.SAME, ""),
        (state("x", int), state("x", str), StateMatch.INCOMPATIBLE, "stored Long, declared String"),
        (state("x"), state("x", int, StateKind.LIST), StateMatch.INCOMPATIBLE, "stored value, declared list"),
        (state("x", int, ttl=5), state("x"), StateMatch.SAME, "time-to-live changed from 5 ms to none"),
    ],
)
def test_types_and_kinds_are_compared(
    stored: StateSnapshot, declared: StateSnapshot, match: StateMatch, message: str
) -> None:
    found = fit(snapshot(operator("a", full(stored))), program(operator("a", declared)))
    ((compared,),) = [o.states for o in found.operators]
    assert compared.match is match
    assert message in compared.message
    assert found.restorable == (match is not StateMatch.INCOMPATIBLE)
    if not found.restorable:
        assert found.problems == (f"operator 'a', state 'x': {compared.message}",)


def test_a_state_without_files_may_become_anything() -> None:
    """Nothing of it is sent to a task, which would compare it."""
    stored = snapshot(operator("a", state("x"), full(state("y"))))
    found = fit(stored, program(operator("a", state("x", str), state("y"))))
    assert found.restorable
    assert matches(found) == [("a", OperatorMatch.MATCHED, {"x": StateMatch.NEW, "y": StateMatch.SAME})]


def test_a_field_with_a_default_may_be_added() -> None:
    document = dict(StateTypes(t.STRING, t.DataclassType(After)).snapshot("x", StateKind.VALUE).value_type or {})
    older = replace(state("x", After), value_type={**document, "fields": document["fields"][:1]})
    found = fit(snapshot(operator("a", full(older))), program(operator("a", state("x", After))))
    assert found.operators[0].states[0].match is StateMatch.COMPATIBLE
    assert "stored After(n: Long), declared After(n: Long, label: String)" in found.operators[0].states[0].message
    assert found.restorable


def test_the_max_parallelism_may_change_only_without_keyed_rows() -> None:
    wider = operator("a", state("x"), most=256, parallelism=5)
    found = fit(snapshot(operator("a", full(state("x")))), program(wider))
    assert "was stored with max parallelism 128, and the program sets 256" in found.problems[0]
    assert fit(snapshot(operator("a", state("x"))), program(wider)).restorable
    assert fit(snapshot(operator("a", full(state("x")))), program(replace(wider, max_parallelism=128))).restorable


def test_a_max_parallelism_that_the_program_did_not_set_is_replaced() -> None:
    stored = snapshot(operator("a", full(state("x")), most=64))
    derived = [replace(one, max_parallelism_derived=True) for one in program(operator("a", state("x"), parallelism=64))]
    assert fit(stored, derived).restorable
    derived[0] = replace(derived[0], declared=replace(derived[0].declared, parallelism=65))
    assert fit(stored, derived).problems == (
        "operator 'a' was stored with max parallelism 64, and the program runs it 65 times: lower its parallelism",
    )


def test_operators_of_one_task_have_one_max_parallelism() -> None:
    stored = snapshot(operator("a", full(state("x")), most=64), operator("b", full(state("x"))))
    both = [
        replace(one, max_parallelism_derived=True, task="task")
        for one in program(operator("a", state("x")), operator("b", state("x")))
    ]
    assert fit(stored, both).problems == (
        "operator 'b' was stored with max parallelism 128, and 'a', which runs in the same task, with 64: "
        "start a new chain between them",
    )
    assert fit(stored, [both[0], replace(both[1], task="other")]).restorable


def test_state_that_its_operator_does_not_support_any_more_is_unclaimed() -> None:
    stored = snapshot(operator("a", full(state("x")), full(state("l", int, StateKind.OPERATOR_LIST))))
    found = fit(stored, program(operator("a"), holds=KEYED))
    assert matches(found)[0][2] == {"x": StateMatch.KEPT, "l": StateMatch.UNCLAIMED}
    assert "holds no operator-list state any more" in found.problems[0]
    assert fit(stored, program(operator("a"), holds=KEYED), allow_unclaimed=True).restorable


def test_operators_own_states_are_not_declared() -> None:
    stored = snapshot(operator("a", full(state("splits", bytes, StateKind.SPLITS))))
    assert matches(fit(stored, program(operator("a"), holds=frozenset({StateKind.SPLITS}))))[0][2] == {
        "splits": StateMatch.SAME
    }
    assert not fit(stored, program(operator("a"))).restorable


def test_an_operator_that_did_not_open_is_not_a_clear_yes() -> None:
    stored = snapshot(operator("a", full(state("x"))))
    found = fit(stored, [ProgramOperator(operator("a"), KEYED, "ValueError: no"), *program(operator("b"))])
    assert matches(found)[0][2] == {"x": StateMatch.UNKNOWN}
    assert found.problems == ()
    assert found.unknown == ("operator 'a', states unknown: ValueError: no",)
    assert not found.restorable


names = st.sampled_from(["a", "b", "c"])
states = st.builds(state, names, st.sampled_from([int, str]), st.sampled_from([StateKind.VALUE, StateKind.MAP]))
some_states = st.lists(states, max_size=3, unique_by=lambda one: one.name)
operators = st.lists(
    st.builds(lambda uid, inner: operator(uid, *inner), names, some_states), max_size=3, unique_by=lambda one: one.uid
)


@given(operators, operators, st.booleans())
def test_a_fit_loses_nothing_silently(
    stored: list[OperatorSnapshot], declared: list[OperatorSnapshot], allowed: bool
) -> None:
    stored = [replace(one, states=tuple(map(full, one.states))) for one in stored]
    found = fit(snapshot(*stored), program(*declared), allowed)
    seen = {(o.stored.uid, s.name) for o in found.operators if o.stored for s in o.states if s.stored}
    assert seen == {(o.uid, s.name) for o in stored for s in o.states}
    matched = {(o.declared.uid, s.name) for o in found.operators if o.declared for s in o.states if s.declared}
    assert matched == {(o.uid, s.name) for o in declared for s in o.states}
    lost = {o.uid for o in stored if o.states} - {o.uid for o in declared}
    if found.restorable:
        assert allowed or not lost
    assert fit(snapshot(*stored), program(*stored)).restorable


@given(operators, st.none() | st.text(min_size=1))
def test_a_program_survives_json(declared: list[OperatorSnapshot], error: str | None) -> None:
    made = tuple(replace(one, error=error, max_parallelism_derived=not error, task="t") for one in program(*declared))
    assert program_from_json(program_to_json(made), "here") == made


@pytest.mark.parametrize(
    "damaged", [b"", b"{}", b"[{}]", b'[{"operator": {}, "holds": [], "error": null, "max_parallelism_derived": true}]']
)
def test_json_that_is_not_a_program(damaged: bytes) -> None:
    with pytest.raises(SnapshotError, match=r"^here: "):
        program_from_json(damaged, "here")


def test_an_enumerators_state_belongs_to_a_source() -> None:
    stored = snapshot(operator("a", full(state("x"))), **{"enumerator.a": "AAAA"})
    sources = program(operator("a", state("x")), holds=KEYED | {StateKind.SPLITS})
    assert fit(stored, sources).restorable
    assert not fit(stored, sources).leaves_state
    found = fit(stored, program(operator("a", state("x"))))
    assert found.problems == ("operator 'a' is no source any more, so its split enumerator's state would be lost",)
    assert found.leaves_state
    allowed = fit(stored, program(operator("a", state("x"))), allow_unclaimed=True)
    assert allowed.restorable
    assert allowed.leaves_state


def test_abandoned_keyed_state_does_not_fix_the_max_parallelism() -> None:
    stored = snapshot(operator("a", full(state("x")), most=64))
    plain = [ProgramOperator(operator("a"), frozenset())]
    assert fit(stored, plain, allow_unclaimed=True).restorable
    assert not fit(stored, program(operator("a")), allow_unclaimed=True).restorable


Renamed = make_dataclass("After", [("n", int), ("tag", str, "none")])


def test_what_looks_renamed_is_warned_about() -> None:
    stored = snapshot(
        operator("a", full(state("field", After)), full(state("former"))), operator("b", full(state("x")))
    )
    program = [
        ProgramOperator(operator("a", state("field", Renamed), state("latter", float)), KEYED),
        ProgramOperator(operator("c", state("x")), KEYED),
    ]
    found = fit(stored, program, allow_unclaimed=True)
    assert found.restorable
    field, former, other = found.warnings
    assert field.startswith("operator 'a', state 'field': the field label is gone, and tag of the same type (String)")
    assert former.startswith("operator 'a', state 'former': it is not used, and 'latter' of the same kind")
    assert other.startswith("operator 'b' is gone, and 'c' with the same states is new")
    unlike = fit(stored, [ProgramOperator(operator("a", state("field", After), state("latter", str)), KEYED)], True)
    assert unlike.warnings == ()
