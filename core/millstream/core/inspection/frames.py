"""Formats stacks: each frame as a name, with the runtime's own frames omitted around those of the user.

Pure functions of frames that were walked before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from millstream.core.logs.tracebacks import encodable, is_user_module, module_of


class SeenFrame(Struct, frozen=True):
    """The data that is kept of a frame; the frame itself would keep all its locals alive."""

    function: str
    """The qualified name, with the enclosing class or function."""
    file: str
    line: int
    module: str
    owner: int = 0
    """The address of the object whose method it is, if requested."""
    task: int = 0
    """The address of its local variable `task`, if requested."""

    @staticmethod
    def of(frame: Any, line: int, with_objects: tuple[str, ...]) -> SeenFrame:
        """Copies a frame of a running thread; with objects, if its module has one of these prefixes."""
        module, code = module_of(frame), frame.f_code
        if not module.startswith(with_objects):
            return SeenFrame(code.co_qualname, code.co_filename, line, module)
        known = frame.f_locals
        owner, task = (id(known[name]) if name in known else 0 for name in ("self", "task"))
        return SeenFrame(code.co_qualname, code.co_filename, line, module, owner, task)

    @property
    def is_runtime(self) -> bool:
        """Whether it belongs to Millstream's own code."""
        return self.module.startswith("millstream.")

    def __str__(self) -> str:
        """Formats as `shop.pricing.discount (pricing.py:42)`; without the module for the main program."""
        where = "" if self.module in ("__main__", "") else f"{self.module}."
        file = self.file.replace("\\", "/").rpartition("/")[2]
        return encodable(f"{where}{self.function} ({file}:{self.line})")


def frame_names(stack: Sequence[SeenFrame], with_runtime: bool, depth: int) -> tuple[str, ...]:
    """Returns the names of the innermost `depth` frames of a stack, whose outermost frame is first.

    Frames before the user's first one are omitted, and so are frames of the runtime after it. For a stack that ends in
    the runtime, the last name is in brackets and shows where the time is spent.
    """
    if with_runtime:
        return tuple(map(str, stack[-depth:]))
    first = next((i for i, frame in enumerate(stack) if is_user_module(frame.module)), len(stack))
    names = [str(frame) for frame in stack[first:] if not frame.is_runtime]
    if stack and (first == len(stack) or stack[-1].is_runtime):
        names.append(_in_runtime(stack))
    return tuple(names[-depth:])


def _in_runtime(stack: Sequence[SeenFrame]) -> str:
    ours = next((frame for frame in reversed(stack) if frame.is_runtime), stack[-1])
    return encodable(f"[{ours.module.removeprefix('millstream.')}.{ours.function}]")
