"""How a cancelled task is interrupted inside of a user function: by an exception that a signal handler raises.

All other exceptions of a user function, including `SystemExit`, `KeyboardInterrupt` and `GeneratorExit`, are errors of
the user: the caller catches `BaseException`, and lets only this one pass.
"""

from __future__ import annotations


class TaskInterrupted(BaseException):  # not an error: like KeyboardInterrupt, user code must not catch it
    """Raised inside a user function of a task that is being cancelled."""
