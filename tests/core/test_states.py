"""The tables of legal transitions: closed, and every lifecycle can end."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.core.jobs.states import (
    JOB_TRANSITIONS,
    TASK_TRANSITIONS,
    ExecutionState,
    IllegalTransitionError,
    JobStatus,
    check_job_transition,
    check_task_transition,
)

TABLES: list[tuple[Any, dict[Any, frozenset[Any]], Any]] = [
    (JobStatus, JOB_TRANSITIONS, check_job_transition),
    (ExecutionState, TASK_TRANSITIONS, check_task_transition),
]


@pytest.mark.parametrize(("states", "table", "check"), TABLES)
def test_the_check_follows_the_table(states: Any, table: Any, check: Any) -> None:
    assert set(table) == set(states)
    for current in states:
        for target in states:
            if target in table[current]:
                check(current, target)
            else:
                with pytest.raises(IllegalTransitionError, match=f"{current} -> {target}"):
                    check(current, target)


@pytest.mark.parametrize(("states", "table", "check"), TABLES)
def test_every_state_leads_to_an_end_and_ends_are_final(states: Any, table: Any, check: Any) -> None:
    reaches_an_end = {state for state in states if state.is_terminal}
    assert reaches_an_end
    assert all(not table[state] for state in reaches_an_end)
    while more := {s for s in states if table[s] & reaches_an_end} - reaches_an_end:
        reaches_an_end |= more
    assert reaches_an_end == set(states)


def test_terminal_states_are_those_of_flink() -> None:
    assert {s for s in JobStatus if s.is_terminal} == {JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED}
    assert {s.value for s in ExecutionState if s.is_terminal} == {"FAILED", "CANCELED", "FINISHED"}


def test_programs_query_and_compare_states_as_in_pyflink() -> None:
    assert JobStatus.FINISHED.is_terminal_state()
    assert JobStatus.CANCELED.is_globally_terminal_state()
    assert not JobStatus.RESTARTING.is_terminal_state()
    assert not {JobStatus.SUSPENDED, JobStatus.RECONCILING} & set(JobStatus)
