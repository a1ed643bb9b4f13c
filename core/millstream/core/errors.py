"""Errors whose message is meant for the user: one line that says what was wrong, where, and what would be right."""

from __future__ import annotations

from typing import ClassVar


class MillstreamError(Exception):
    """Base of every error that the command line prints as one line, and REST answers as its message."""

    keeps_lines: ClassVar[bool] = False  # true where the lines are someone else's words, such as pip's


class ConfigurationError(MillstreamError):
    """An option is unknown, or its value does not fit."""


class InvalidProgramError(MillstreamError):
    """The job cannot be built from the user's program as it is."""


NO_CLUSTER = "`millstream cluster start` starts one on this machine; -m host:port names the REST address of another"


class UnreachableError(MillstreamError):
    """A peer service did not answer in time."""


class SubmissionError(MillstreamError):
    """The cluster does not take the job."""


class UnrecoverableError(MillstreamError):
    """Trying again cannot help: a job that fails with it is not restarted."""


class UnloadableProgramError(UnrecoverableError):
    """A part of the program cannot be loaded where it is to run: a class or a module is not there."""


class JobExecutionError(MillstreamError):
    """The job ended without finishing; the message is the root cause as the user should read it.

    `shown` is the same for a terminal on which the traceback of the root cause has been seen before.
    """

    def __init__(self, message: str, shown: str | None = None) -> None:
        super().__init__(message)
        self.shown = message if shown is None else shown
