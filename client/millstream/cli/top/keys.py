"""Single keys from a terminal, without waiting for the end of a line."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

_ESCAPE = b"\x1b"


class Key(Enum):
    """The keys that `millstream top` reacts to."""

    QUIT = "q"
    UP = "up"
    DOWN = "down"
    ENTER = "enter"
    BACK = "back"


_KEYS = {
    b"q": Key.QUIT, b"Q": Key.QUIT, b"k": Key.UP, b"j": Key.DOWN, b"\x1b[A": Key.UP, b"\x1b[B": Key.DOWN,
    b"\x1bOA": Key.UP, b"\x1bOB": Key.DOWN, b"\r": Key.ENTER, b"\n": Key.ENTER, b"\x7f": Key.BACK, b"\x08": Key.BACK,
    b"\x1b": Key.BACK, b"\x1b[D": Key.BACK, b"\x1b[C": Key.ENTER,
}  # fmt: skip


@contextmanager
def single_keys() -> Iterator[None]:
    """Has the terminal hand over each key by itself, and as it was behind that."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def pressed(seconds: float) -> list[Key]:
    """The keys that are pressed until then; returns with the first."""
    descriptor = sys.stdin.fileno()
    if not select.select([descriptor], [], [], seconds)[0]:
        return []
    content = os.read(descriptor, 64)
    return decoded(content) if content else [Key.QUIT]  # there is no terminal any more


def decoded(content: bytes) -> list[Key]:
    """The keys in what a terminal sends; what means none is left out."""
    found: list[Key] = []
    while content:
        length = 3 if content[:1] == _ESCAPE and content[1:2] in (b"[", b"O") else 1
        part, content = content[:length], content[length:]
        if part in _KEYS:
            found.append(_KEYS[part])
    return found
