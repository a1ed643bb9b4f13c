"""Tables for users: fitted to the terminal, plain aligned columns when the output goes elsewhere."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Sequence
from datetime import datetime

import click

from millstream.core.logs.printable import printable

_GAP = "  "
_SHORTEST = 12  # letters that are left of a cell that is shortened


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], shortens: Sequence[str] = ()) -> None:
    """Prints to stdout; what would move the cursor is shown as Python writes it.

    On a terminal no word is broken over lines, for ids and addresses are copied from here. When the table is too wide,
    the columns that `shortens` names are shortened, then cells are wrapped between words. A row that does not fit
    even then is printed as lines of its own, with all of its words. Elsewhere nothing is ever cut off.
    """
    headers, *rows = [[printable(cell) for cell in row] for row in [headers, *rows]]
    if not sys.stdout.isatty():
        widths = [max(len(row[column]) for row in [headers, *rows]) for column in range(len(headers))]
        for row in [headers, *rows]:
            print(_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    for line in terminal_lines(headers, rows, shutil.get_terminal_size().columns, shortens):
        print(click.unstyle(line) if is_plain else line)


def terminal_lines(
    headers: Sequence[str], rows: Sequence[Sequence[str]], width: int, shortens: Sequence[str] = ()
) -> list[str]:
    """The lines of a table on a terminal of this width, the header in bold."""
    from rich.cells import cell_len, set_cell_size

    def needed(texts: Sequence[str]) -> int:
        return max(map(cell_len, texts))

    columns = [[headers[index], *(row[index] for row in rows)] for index in range(len(headers))]
    wanted = [needed(column) for column in columns]
    # Text that is in the way of others is shortened; a word that is none of it stays whole.
    least = [
        min(wanted[index], max(_SHORTEST, cell_len(column[0])))
        if column[0] in shortens
        else needed([word for text in column for word in text.split() or [""]])
        for index, column in enumerate(columns)
    ]
    room = width - len(_GAP) * (len(headers) - 1)
    if sum(least) > room:
        return [line for row in rows for line in _as_lines(headers, row, width, shortens)]
    given = shares(wanted, least, room, [header in shortens for header in headers])
    lines = []
    for number, row in enumerate([headers, *rows]):
        cells = [
            [_shortened(cell, size)] if header in shortens else _wrapped(cell, size)
            for header, cell, size in zip(headers, row, given, strict=True)
        ]
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            line = _GAP.join(set_cell_size(part, size) for part, size in zip(parts, given, strict=True)).rstrip()
            lines.append(click.style(line, bold=True) if number == 0 else line)
    return lines


def shares(wanted: Sequence[int], least: Sequence[int], room: int, gives_first: Sequence[bool]) -> list[int]:
    """The widths of columns that take up at most that much room: those that are shortened give up theirs first."""
    given = list(wanted)
    for first in (True, False):
        for _ in range(sum(given) - room):
            rest = [(given[i], i) for i in range(len(given)) if gives_first[i] is first and given[i] > least[i]]
            if not rest:
                break
            given[max(rest)[1]] -= 1
    return given


def _as_lines(headers: Sequence[str], row: Sequence[str], width: int, shortens: Sequence[str]) -> list[str]:
    """A row whose cells are below each other: the first cell alone, the others with the names of their columns."""
    name = max(map(len, headers[1:]), default=0)
    lines = [row[0]]
    for header, cell in zip(headers[1:], row[1:], strict=True):
        size = max(_SHORTEST, width - name - 2 * len(_GAP))
        parts = _wrapped(cell, size)
        if header in shortens:  # a long word, such as a name without spaces
            parts = [_shortened(part, size) for part in parts]
        labels = [header, *[""] * (len(parts) - 1)]
        lines += [f"{_GAP}{label:<{name}}{_GAP}{part}" for label, part in zip(labels, parts, strict=True)]
    return lines


def _shortened(text: str, width: int) -> str:
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of whole words; a word that is longer stays whole."""
    from rich.cells import cell_len

    if cell_len(text) <= width:
        return [text]
    lines = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= width or not lines[-1]:
            lines[-1] = joined
        else:
            lines.append(word)
    return lines


def moment(milliseconds: int) -> str:
    """A time of this host's zone; just the number when no calendar has it."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"


def size(count: int) -> str:
    """`17 B`, `1.2 kB`, `3.4 MB`."""
    if count < 1000:
        return f"{count} B"
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 999.95:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.1f} {unit}"
