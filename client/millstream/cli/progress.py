"""Progress for users: a line that changes on a terminal, lines with -v elsewhere, nothing otherwise.

`run` prints lines everywhere: what it does is part of the job's story, which continues below them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress_on_terminal(verbose: bool) -> Iterator[Callable[[str], None]]:
    """Yields what to call with each step. Writes to stderr, and cleans up after itself."""
    if verbose:
        yield progress_in_lines(details=True)
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.markup import escape

        with Console(stderr=True).status("") as status:
            yield lambda message: status.update(escape(message))
    else:
        yield lambda message: None


def progress_in_lines(details: bool) -> Callable[[str], None]:
    """What to call with each step: a line on stderr for each that is new; with details, for each line of pip."""
    last: list[str] = []

    def show(message: str) -> None:
        if not details:
            message = message.partition(": ")[0]
        if last != [message]:
            last[:] = [message]
            print(message, file=sys.stderr, flush=True)

    return show
