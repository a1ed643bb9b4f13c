"""The screen of `millstream top`: jobs, or the vertices of one, and which of them is chosen. Pure but for drawing."""

from __future__ import annotations

from typing import Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from millstream.cli.tables import shares
from millstream.cli.top import cells
from millstream.cli.top.figures import ClusterFigures, VertexFigures
from millstream.cli.top.keys import Key
from millstream.core.logs.printable import printable
from millstream.core.logs.short_ids import short_id

_HOT, _WARM = 80.0, 50.0  # percent
_SHORTEST = 16  # letters of names and causes for which ids give way


class Screen:
    """What is shown, and what keys do about it."""

    def __init__(self, job_id: str = "") -> None:
        self.job_id = job_id
        """The job whose vertices are shown; empty: all jobs are."""
        self.chosen = 0
        self._is_fixed = bool(job_id)
        self._listed: list[str] = []

    def press(self, key: Key) -> bool:
        """Handles a key. Returns False when the screen is to be left."""
        match key:
            case Key.QUIT:
                return False
            case Key.UP:
                self.chosen = max(0, self.chosen - 1)
            case Key.DOWN:
                self.chosen = min(max(0, len(self._listed) - 1), self.chosen + 1)
            case Key.ENTER:
                if not self.job_id and self._listed:
                    self.job_id, self.chosen = self._listed[self.chosen], 0
            case Key.BACK:
                if self._is_fixed or not self.job_id:
                    return False
                self.job_id, self.chosen = "", 0
        return True

    def drawn(self, figures: ClusterFigures, trouble: str = "", width: int = 110) -> RenderableType:
        """What is shown of these figures on a terminal of this width. `trouble`: why there are no newer ones."""
        job = next((job for job in figures.jobs if job.id == self.job_id), None) if self.job_id else None
        self._listed = [v.id for v in job.vertices] if job is not None else [j.id for j in figures.jobs]
        self.chosen = min(self.chosen, max(0, len(self._listed) - 1))
        lines = [Text(cells.cluster_line(figures), style="bold")]
        lines += [Text(printable(line)) for line in cells.job_lines(job)] if job is not None else []
        table = self._vertices(job.vertices, width) if job is not None else self._jobs(figures, width)
        keys = "q quit   up/down choose   " + ("backspace jobs" if self.job_id else "enter vertices")
        return Group(*lines, Text(), table, Text(), Text(trouble or keys, style="red" if trouble else "dim"))

    def _jobs(self, figures: ClusterFigures, width: int) -> Table:
        rows = [_texts(cells.job_cells(job)) for job in figures.jobs]
        least = _least_widths(cells.JOBS, _wanted_widths(cells.JOBS, rows), _SHORTEST)
        if sum(least) > _room(cells.JOBS, width):
            for job, row in zip(figures.jobs, rows, strict=True):
                row[_JOB_ID] = Text(short_id(job.id))
        table = _table(cells.JOBS, rows, width)
        for index, row in enumerate(rows):
            table.add_row(*row, style="reverse" if index == self.chosen else None)
        return table

    def _vertices(self, vertices: tuple[VertexFigures, ...], width: int) -> Table:
        rows = [_texts(cells.vertex_cells(vertex)) for vertex in vertices]
        table = _table(cells.VERTICES, rows, width)
        for index, (vertex, row) in enumerate(zip(vertices, rows, strict=True)):
            for column, share in zip(_SHARES, (vertex.busy, vertex.backpressured, vertex.busiest), strict=True):
                row[column].stylize(_heat(share))
            table.add_row(*row, style="reverse" if index == self.chosen else None)
        return table


def _least_widths(headers: tuple[str, ...], wanted: list[int], shortest: int) -> list[int]:
    """Where there is little room, names and causes are shortened, and figures are not."""
    return [min(size, shortest) if header in _GIVES_WAY else size for header, size in zip(headers, wanted, strict=True)]


def _wanted_widths(headers: tuple[str, ...], rows: list[list[Text]]) -> list[int]:
    return [max([len(header), *(row[index].cell_len for row in rows)]) for index, header in enumerate(headers)]


def _table(headers: tuple[str, ...], rows: list[list[Text]], width: int) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    wanted = _wanted_widths(headers, rows)
    least = _least_widths(headers, wanted, 1)
    given = shares(wanted, least, _room(headers, width), [header in _GIVES_WAY for header in headers])
    for header, size in zip(headers, given, strict=True):
        justify: Literal["left", "right"] = "right" if header in _NUMBERS else "left"
        table.add_column(header, no_wrap=header != "", width=size, justify=justify)
    return table


def _room(headers: tuple[str, ...], width: int) -> int:
    return width - 2 * (len(headers) - 1)  # there are two spaces between columns


_NUMBERS = frozenset({"TASKS", "RESTARTS", *cells.VERTICES[3:]})
_SHARES = [cells.VERTICES.index(name) for name in ("BUSY", "BACKPRESSURED", "BUSIEST")]
_GIVES_WAY = frozenset({cells.JOBS[0], cells.VERTICES[0], ""})
_JOB_ID = cells.JOBS.index("JOB ID")


def _texts(row: list[str]) -> list[Text]:
    return [Text(printable(cell)) for cell in row]


def _heat(share: float | None) -> str:
    if share is None or share < _WARM:
        return ""
    return "red" if share >= _HOT else "yellow"
