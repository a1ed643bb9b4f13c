"""Stacks for people: each frame as a name, the user's first, and the runtime's own left out where these are.

Pure functions of frames that were walked before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from millstream.core.logs.tracebacks import encodable, is_user_module, module_of


class SeenFrame(Struct, frozen=True):
    """What is kept of a frame: the frame itself would hold on to everything in it."""

    function: str
    """With the class or function that it is in."""
    file: str
    line: int
    module: str
    owner: int = 0
    """The address of the object whose method it is, where its owner is needed."""
    task: int = 0
    """That of its local variable `task`, likewise."""

    @staticmethod
    def of(frame: Any, line: int, with_objects: tuple[str, ...]) -> SeenFrame:
        """A frame of a thread that continues meanwhile; with objects, if its module's name begins like one of these."""
        module, code = module_of(frame), frame.f_code
        if not module.startswith(with_objects):
            return SeenFrame(code.co_qualname, code.co_filename, line, module)
        known = frame.f_locals
        owner, task = (id(known[name]) if name in known else 0 for name in ("self", "task"))
        return SeenFrame(code.co_qualname, code.co_filename, line, module, owner, task)

    @property
    def is_runtime(self) -> bool:
        """Whether it is of Millstream's own code."""
        return self.module.startswith("millstream.")

    def __str__(self) -> str:
        """As in `shop.pricing.discount (pricing.py:42)`; without the module where that is the program itself."""
        where = "" if self.module in ("__main__", "") else f"{self.module}."
        file = self.file.replace("\\", "/").rpartition("/")[2]
        return encodable(f"{where}{self.function} ({file}:{self.line})")


def told(stack: Sequence[SeenFrame], with_runtime: bool, depth: int) -> tuple[str, ...]:
    """The names of a stack whose outermost frame comes first: at most `depth` of them, the innermost.

    What comes before the user's first frame is left out, and so are frames of the runtime behind it. A stack that ends
    in the runtime has a last name in brackets: that is where the time goes.
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
