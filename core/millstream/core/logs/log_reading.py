"""Reading log files for others: what there is, and a bounded piece of one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path

from millstream.core.messages.logs import LogContent, LogFile

LIMIT = 8 * 1024 * 1024  # bytes in one response


def list_logs(folder: Path | None, wanted: Callable[[str], bool]) -> list[LogFile]:
    """The files of the folder that the filter selects, by name."""
    found: list[LogFile] = []
    if folder is not None:
        with contextlib.suppress(OSError):
            for path in sorted(folder.iterdir()):
                with contextlib.suppress(OSError):
                    if wanted(path.name) and path.is_file() and not path.is_symlink():
                        status = path.stat()
                        found.append(LogFile(path.name, status.st_size, int(status.st_mtime * 1000)))
    return found


def read_piece(path: Path, offset: int | None = None, length: int = LIMIT) -> LogContent:
    """From the offset on; from that many bytes before the end when it is negative; the end when there is none."""
    length = max(0, min(length, LIMIT))
    if not path.is_file():  # a terminal or a pipe
        return LogContent(b"", 0, 0)
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            wanted = size - length if offset is None else size + offset if offset < 0 else offset
            start = max(0, min(wanted, size))
            file.seek(start)
            return LogContent(file.read(length), start, size)
    except OSError:
        return LogContent(b"", 0, 0)


def read_ends(paths: Iterable[Path], length: int = LIMIT) -> LogContent:
    """The files one after another, the last one whole if it can be, within a bound on all of them."""
    pieces: list[bytes] = []
    for path in reversed(list(paths)):
        piece = read_piece(path, None, length).content
        pieces.append(piece)
        length -= len(piece)
    content = b"".join(reversed(pieces))
    return LogContent(content, 0, len(content))
