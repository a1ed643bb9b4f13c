"""Tables for people: drawn on a terminal, plain aligned columns when the output goes elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime

from millstream.core.logs.printable import printable


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints to stdout. Nothing is ever cut off, and what would move the cursor is shown as Python writes it."""
    headers, *rows = [[printable(cell) for cell in row] for row in [headers, *rows]]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, header_style="bold", pad_edge=False)
        for header in headers:
            table.add_column(header, overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        Console().print(table)
        return
    widths = [max(len(row[column]) for row in [headers, *rows]) for column in range(len(headers))]
    for row in [headers, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


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
