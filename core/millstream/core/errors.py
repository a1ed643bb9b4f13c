"""Errors with a message for the user: one line that states what is wrong, where, and what is expected."""

from __future__ import annotations

from typing import ClassVar


class MillstreamError(Exception):
    """Base of all errors that the command line prints as one line, and the REST API returns as a message."""

    keeps_lines: ClassVar[bool] = False  # true if the message contains output of other programs, such as pip


class ConfigurationError(MillstreamError):
    """An option is unknown, or its value is not valid."""


class InvalidProgramError(MillstreamError):
    """The user's program does not define a valid job."""


NO_CLUSTER = "`millstream cluster start` starts one on this machine; -m host:port names the REST address of another"


class UnreachableError(MillstreamError):
    """A peer service did not respond in time."""


class SubmissionError(MillstreamError):
    """The cluster rejected the job."""


class UnrecoverableError(MillstreamError):
    """A failure that a restart cannot resolve: a job that fails with it is not restarted."""


class UnloadableProgramError(UnrecoverableError):
    """A part of the program cannot be loaded where it runs: a class or a module is missing."""


class JobExecutionError(MillstreamError):
    """The job ended without finishing; the message is the root cause as the user should read it.

    `shown` is the same for a terminal on which the traceback of the root cause has been seen before.
    """

    def __init__(self, message: str, shown: str | None = None) -> None:
        super().__init__(message)
        self.shown = message if shown is None else shown
