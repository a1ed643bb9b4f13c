"""Progress for people: a line that changes on a terminal, lines with -v elsewhere, nothing otherwise."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress_on_terminal(verbose: bool) -> Iterator[Callable[[str], None]]:
    """Yields what to call with each step. Writes to stderr, and cleans up after itself."""
    if verbose:
        last: list[str] = []

        def say(message: str) -> None:
            if last != [message]:
                last[:] = [message]
                print(message, file=sys.stderr)

        yield say
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.markup import escape

        with Console(stderr=True).status("") as status:
            yield lambda message: status.update(escape(message))
    else:
        yield lambda message: None
