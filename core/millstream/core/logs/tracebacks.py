"""Exceptions of user code, shown without the frames of the runtime."""

from __future__ import annotations

import sys
import traceback
from pickle import PicklingError
from types import FrameType, TracebackType

from millstream.core.errors import MillstreamError

_NOT_USERS = (sys.stdlib_module_names - {"__main__"}) | {
    "cloudpickle", "fsspec", "millstream", "msgspec", "numpy", "pyarrow",
}  # fmt: skip
_MOST_FRAMES = 50


def module_of(frame: FrameType) -> str:
    """The name of a frame's module; of a process of ours, which may have it as its `__main__`, the real one."""
    name = str(frame.f_globals.get("__name__", ""))
    if name == "__main__":
        name = str(getattr(frame.f_globals.get("__spec__"), "name", name))
    return name


def _is_ours(frame: FrameType) -> bool:
    """With what our own `with` statements pass through."""
    name = module_of(frame)
    return name == "contextlib" or name.startswith("millstream.")


def _user_frames(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and _is_ours(trace.tb_frame):
        trace = trace.tb_next
    return trace


LONGEST = 64 * 1024
"""Characters of a traceback that are kept; each of them is held by several services for as long as the job is known."""
LONGEST_LINE = 8 * 1024


def encodable(text: str) -> str:
    """The text with halves of surrogate pairs escaped: names of files that are no UTF-8 have them, messages cannot."""
    return text.encode("utf-8", "backslashreplace").decode()


def shortened(text: str, limit: int = LONGEST) -> str:
    """The text, or its beginning and its end, which have the place and the error."""
    if len(text) <= limit:
        return text
    left_out = f"\n... {len(text) - limit} characters are left out here ...\n"
    head = (limit - len(left_out)) // 2
    return text[:head] + left_out + text[len(text) - (limit - len(left_out) - head) :]


def user_traceback(error: BaseException) -> str:
    """The traceback from the first frame that is the user's; of an error meant for the user, to the last that is."""
    trace = _user_frames(error.__traceback__)
    shown_error = traceback.TracebackException(type(error), error, trace, compact=True)
    if isinstance(error, MillstreamError):
        frames = [frame for frame, _ in traceback.walk_tb(trace)]
        while frames and _is_ours(frames.pop()):
            shown_error.stack.pop()
        _drop_causes_of_ours(shown_error, error)
    return encodable(shortened("".join(shown_error.format())) + _advice(error))


def _advice(error: BaseException) -> str:
    """What to do about it, where the error itself does not."""
    if isinstance(error, PicklingError) and "__main__" in one_line(error):
        return (
            "\nWhat is handed to multiprocessing, or pickled, by a function of a job has to be in a module beside the"
            " program, not in the program's own file: workers do not have that as their __main__. See 'Processes that"
            " functions start' in docs/operations.md.\n"
        )
    if type(error).__name__ == "BdbQuit" and type(error).__module__ == "bdb":
        return (
            "\nThe debugger was left: `continue` resumes the function, `quit` and the end of the input end it."
            " Use breakpoint() in local mode (python job.py in a terminal): pdb.set_trace() has no input in a worker.\n"
        )
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    return (
        f"\nThe job's environment has no module '{error.name}'. The program's folder is sent with the job, unless it"
        " is too large, or the home or temporary directory; -pyfs sends other files and folders, and -pyreq or a wheel"
        " installs packages.\n"
    )


def _drop_causes_of_ours(shown_error: traceback.TracebackException, error: BaseException) -> None:
    """Our message has the cause: of the causes, those stay in which the user's code had a part."""
    for name in ("__cause__", "__context__"):
        cause, shown = getattr(error, name), getattr(shown_error, name)
        while cause is not None and shown is not None and not is_users(cause):
            cause, shown = cause.__cause__ or cause.__context__, shown.__cause__ or shown.__context__
        setattr(shown_error, name, shown)


def is_users(error: BaseException) -> bool:
    """Whether code of the user's, or of a library that it calls, had a part in it."""
    modules = (str(frame.f_globals.get("__name__", "")) for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(map(is_user_module, modules))


def is_user_module(name: str) -> bool:
    """Whether a module is the user's, or of a library that the user's code calls."""
    return name.partition(".")[0] not in _NOT_USERS


def error_signature(error: BaseException) -> str:
    """What was raised where, without its message: equal for the same error in every process and on every host.

    The place are the frames of user code and of libraries, each once, so that endless recursions are equal too.
    """
    kind = type(error)
    places = dict.fromkeys(
        f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_qualname}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not _is_ours(frame)
    )
    return encodable(" ".join([f"{kind.__module__}.{kind.__qualname__}", *list(places)[-_MOST_FRAMES:]]))


def with_causes(error: BaseException) -> list[BaseException]:
    """The error and what led to it, each once: an error may be a cause of its own cause."""
    found: dict[int, BaseException] = {}
    cause: BaseException | None = error
    while cause is not None and id(cause) not in found:
        found[id(cause)] = cause
        cause = cause.__cause__ or cause.__context__
    return list(found.values())


def one_line(error: BaseException) -> str:
    """The exception's type and message, without line breaks."""
    name, module = type(error).__qualname__, type(error).__module__
    full = name if module in ("builtins", "__main__") else f"{module}.{name}"
    try:
        message = " ".join(str(error).splitlines())
    except BaseException:  # a user's class whose __str__ raises must not hide the failure
        message = "<exception str() failed>"
    line = f"{full}: {message}" if message else full
    return encodable(" ".join(shortened(line, LONGEST_LINE).splitlines()))
