"""Exceptions of user code without the frames of the runtime above them."""

from __future__ import annotations

import traceback
from importlib.machinery import ModuleSpec
from multiprocessing.reduction import ForkingPickler
from types import FunctionType
from typing import Any

from millstream.core.errors import InvalidProgramError
from millstream.core.logs.tracebacks import one_line, user_traceback


def _as_runtime(function: Any) -> Any:
    """The same function as if it were defined in a module of Millstream."""
    scope = {**function.__globals__, "__name__": "millstream.taskmanager.fake"}
    return FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)


def runtime_frame(call: Any) -> Any:
    return call()


def user_function() -> None:
    raise ValueError("bad record")


def caught(call: Any) -> BaseException:
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def _below_this_file(error: BaseException) -> BaseException:
    """Drops the frame of `caught`, which no service has above its own."""
    assert error.__traceback__ is not None
    return error.with_traceback(error.__traceback__.tb_next)


def test_frames_of_the_runtime_above_the_users_are_dropped() -> None:
    outer = _as_runtime(runtime_frame)
    error = _below_this_file(caught(lambda: outer(lambda: outer(user_function))))
    error = _below_this_file(error)
    text = user_traceback(error)
    assert text.startswith("Traceback (most recent call last):\n")
    assert "runtime_frame" not in text.split("<lambda>")[0]
    assert text.endswith("ValueError: bad record\n")
    assert "user_function" in text


def test_runtime_frames_called_by_user_code_are_kept() -> None:
    inner = _as_runtime(user_function)
    text = user_traceback(_below_this_file(caught(lambda: inner())))
    assert "user_function" in text


def test_a_class_that_multiprocessing_cannot_find_in_the_program_has_advice() -> None:
    def in_program() -> None: ...

    in_program.__module__, in_program.__qualname__ = "__main__", "in_program"
    text = user_traceback(caught(lambda: ForkingPickler.dumps(in_program)))
    assert "beside the program, not in the program's own file" in text.splitlines()[-1]
    in_program.__module__ = "json"
    assert user_traceback(caught(lambda: ForkingPickler.dumps(in_program))).endswith(" on json failed\n")


def refusing() -> None:
    raise InvalidProgramError("no such state")


def test_an_error_meant_for_the_user_ends_at_the_users_call() -> None:
    text = user_traceback(_below_this_file(caught(lambda: _as_runtime(runtime_frame)(_as_runtime(refusing)))))
    assert "in <lambda>" in text
    assert "in runtime_frame" not in text
    assert "in refusing" not in text
    assert text.endswith("millstream.core.errors.InvalidProgramError: no such state\n")
    assert "in refusing" in user_traceback(caught(refusing)), "raised by the user's own code"


def test_an_exception_of_the_runtime_alone_has_no_frames() -> None:
    failing = _as_runtime(user_function)
    error = caught(failing)
    text = user_traceback(_below_this_file(error))
    assert text == "ValueError: bad record\n"


def test_the_main_module_of_the_runtime_is_not_user_code() -> None:
    scope = {**runtime_frame.__globals__, "__name__": "__main__"}
    scope["__spec__"] = ModuleSpec("millstream.jobmanager.fake", None)
    started = FunctionType(runtime_frame.__code__, scope)
    error = caught(lambda: started(_as_runtime(refusing)))
    text = user_traceback(_below_this_file(_below_this_file(error)))
    assert text == "millstream.core.errors.InvalidProgramError: no such state\n"


def test_causes_are_included() -> None:
    def wrapping() -> None:
        try:
            user_function()
        except ValueError as error:
            raise RuntimeError("while wrapping") from error

    text = user_traceback(caught(wrapping))
    parts = ("ValueError: bad record", "direct cause", "RuntimeError: while wrapping")
    positions = [text.index(part) for part in parts]
    assert positions == sorted(positions)


def test_a_missing_module_is_reported_with_the_option_that_ships_it() -> None:
    def importing() -> None:
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401

    assert "-pyfs" in user_traceback(caught(importing))
    assert "-pyfs" not in user_traceback(caught(user_function))


class OurError(Exception):
    pass


class BrokenError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_one_line_names_the_type_and_the_message() -> None:
    assert one_line(ValueError("bad")) == "ValueError: bad"
    assert one_line(KeyError("k")) == "KeyError: 'k'"
    assert one_line(StopIteration()) == "StopIteration"
    assert one_line(OurError("x")) == f"{__name__}.OurError: x"


def test_one_line_is_one_line() -> None:
    assert one_line(ValueError("first\nsecond\r\nthird")) == "ValueError: first second third"


def test_an_exception_whose_str_fails_is_still_reported() -> None:
    error = caught(lambda: (_ for _ in ()).throw(BrokenError()))
    assert one_line(error) == f"{__name__}.BrokenError: <exception str() failed>"
    assert "BrokenError" in user_traceback(error)
    assert traceback.format_exception(error)


def test_text_that_is_not_utf_8_can_be_sent() -> None:
    error = caught(lambda: (_ for _ in ()).throw(ValueError("the file \udc80")))
    assert one_line(error).encode() == b"ValueError: the file \\udc80"
    assert b"ValueError: the file \\udc80" in user_traceback(error).encode()


def test_a_very_long_text_keeps_its_beginning_and_its_end() -> None:
    def grow() -> None:
        raise ValueError("begin " + "x" * 3_000_000 + " end")

    try:
        grow()
    except ValueError as error:
        text, line = user_traceback(error), one_line(error)
    assert len(text) <= 64 * 1024
    assert "in grow" in text
    assert text.rstrip().endswith("x end")
    assert "characters are left out" in text
    assert len(line) <= 8 * 1024
    assert line.startswith("ValueError: begin x")
    assert line.endswith("x end")
    assert "\n" not in line


def test_causes_of_our_errors_are_included_only_with_user_code_in_them() -> None:
    def damaged() -> None:
        raise InvalidProgramError("the file is damaged")

    def reading() -> None:
        try:
            _as_runtime(damaged)()
        except InvalidProgramError as error:
            raise InvalidProgramError("cannot restore: the file is damaged") from error

    def calling_the_user() -> None:
        try:
            user_function()
        except ValueError as error:
            raise InvalidProgramError("cannot be pickled") from error

    alone = _below_this_file(caught(_as_runtime(reading)))
    assert user_traceback(alone).splitlines() == [
        "millstream.core.errors.InvalidProgramError: cannot restore: the file is damaged"
    ]
    text = user_traceback(_below_this_file(caught(_as_runtime(calling_the_user))))
    assert "in user_function" in text
    assert text.endswith("millstream.core.errors.InvalidProgramError: cannot be pickled\n")
