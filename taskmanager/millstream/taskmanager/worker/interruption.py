"""How a cancelled task is interrupted inside of a user's function: by an exception that a signal raises there.

Whatever else a user's function raises, also `SystemExit`, `KeyboardInterrupt` and `GeneratorExit`, is the user's error:
its caller catches `BaseException`, and lets this one pass.
"""

from __future__ import annotations


class TaskInterrupted(BaseException):  # not an error: like KeyboardInterrupt, user code must not catch it
    """Raised inside a user function of a task that is being cancelled."""
