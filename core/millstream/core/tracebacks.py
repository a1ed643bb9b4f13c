"""Exceptions of user code, told as if the runtime had not been there."""

from __future__ import annotations

import traceback
from types import TracebackType


def _user_frames(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and str(trace.tb_frame.f_globals.get("__name__", "")).startswith("millstream."):
        trace = trace.tb_next
    return trace


def user_traceback(error: BaseException) -> str:
    """The traceback from the first frame that is the user's."""
    told = traceback.TracebackException(type(error), error, _user_frames(error.__traceback__), compact=True)
    return "".join(told.format())


def one_line(error: BaseException) -> str:
    """The exception's type and message, without line breaks."""
    name, module = type(error).__qualname__, type(error).__module__
    full = name if module in ("builtins", "__main__") else f"{module}.{name}"
    try:
        message = " ".join(str(error).splitlines())
    except Exception:  # a user's class whose __str__ raises must not hide the failure
        message = "<exception str() failed>"
    return f"{full}: {message}" if message else full
