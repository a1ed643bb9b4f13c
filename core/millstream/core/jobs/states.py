"""The states of jobs and of tasks, and the tables of all legal transitions."""

from __future__ import annotations

from enum import StrEnum, nonmember


class JobStatus(StrEnum):
    """The states of a job, with Flink's names."""

    INITIALIZING = "INITIALIZING"
    CREATED = "CREATED"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"

    SUSPENDED = nonmember("SUSPENDED")
    RECONCILING = nonmember("RECONCILING")
    """States of Flink that are not used here: a job whose tasks are being taken over is CREATED. Programs may still
    compare with them.
    """

    @property
    def is_terminal(self) -> bool:
        """Whether the state is final."""
        return not JOB_TRANSITIONS[self]

    def is_terminal_state(self) -> bool:
        """Whether the state is final; PyFlink's name."""
        return self.is_terminal

    def is_globally_terminal_state(self) -> bool:
        """Whether the state is final for every job manager: the same here; PyFlink's name."""
        return self.is_terminal


JOB_TRANSITIONS: dict[JobStatus, frozenset[JobStatus]] = {
    JobStatus.INITIALIZING: frozenset({JobStatus.CREATED, JobStatus.CANCELLING, JobStatus.CANCELED, JobStatus.FAILED}),
    JobStatus.CREATED: frozenset({JobStatus.RUNNING, JobStatus.RESTARTING, JobStatus.FAILING, JobStatus.CANCELLING}),
    JobStatus.RUNNING: frozenset({JobStatus.FINISHED, JobStatus.RESTARTING, JobStatus.FAILING, JobStatus.CANCELLING}),
    JobStatus.RESTARTING: frozenset({JobStatus.RUNNING, JobStatus.FAILING, JobStatus.CANCELLING}),
    JobStatus.FAILING: frozenset({JobStatus.FAILED, JobStatus.CANCELLING}),
    JobStatus.CANCELLING: frozenset({JobStatus.CANCELED, JobStatus.FAILED}),
    JobStatus.FAILED: frozenset(),
    JobStatus.CANCELED: frozenset(),
    JobStatus.FINISHED: frozenset(),
}


class ExecutionState(StrEnum):
    """The states of one attempt of one subtask, with Flink's names."""

    CREATED = "CREATED"
    SCHEDULED = "SCHEDULED"
    DEPLOYING = "DEPLOYING"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    @property
    def is_terminal(self) -> bool:
        """Whether the state is final."""
        return not TASK_TRANSITIONS[self]


_S = ExecutionState
TASK_TRANSITIONS: dict[ExecutionState, frozenset[ExecutionState]] = {
    _S.CREATED: frozenset({_S.SCHEDULED, _S.CANCELED, _S.FAILED}),
    _S.SCHEDULED: frozenset({_S.DEPLOYING, _S.CANCELED, _S.FAILED}),
    _S.DEPLOYING: frozenset({_S.INITIALIZING, _S.RUNNING, _S.FINISHED, _S.CANCELING, _S.CANCELED, _S.FAILED}),
    _S.INITIALIZING: frozenset({_S.RUNNING, _S.FINISHED, _S.CANCELING, _S.CANCELED, _S.FAILED}),
    _S.RUNNING: frozenset({_S.FINISHED, _S.CANCELING, _S.CANCELED, _S.FAILED}),
    _S.CANCELING: frozenset({_S.CANCELED, _S.FINISHED, _S.FAILED}),
    _S.FINISHED: frozenset(),
    _S.CANCELED: frozenset(),
    _S.FAILED: frozenset(),
}


class IllegalTransitionError(Exception):
    """A state machine received a transition that its table does not hold: a bug in the caller."""


def check_job_transition(current: JobStatus, target: JobStatus) -> None:
    """Raises IllegalTransitionError unless the table contains the transition."""
    if target not in JOB_TRANSITIONS[current]:
        raise IllegalTransitionError(f"job: {current} -> {target}")


def check_task_transition(current: ExecutionState, target: ExecutionState) -> None:
    """Raises IllegalTransitionError unless the table contains the transition."""
    if target not in TASK_TRANSITIONS[current]:
        raise IllegalTransitionError(f"task: {current} -> {target}")
