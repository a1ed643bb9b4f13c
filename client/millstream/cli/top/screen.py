"""The screen of `millstream top`: jobs, or the vertices of one, and which of them is chosen. Pure but for drawing."""

from __future__ import annotations

from typing import Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from millstream.cli.top import cells
from millstream.cli.top.figures import ClusterFigures, VertexFigures
from millstream.cli.top.keys import Key
from millstream.core.logs.printable import printable

_HOT, _WARM = 80.0, 50.0  # percent


class Screen:
    """What is shown, and what keys do about it."""

    def __init__(self, job_id: str = "") -> None:
        self.job_id = job_id
        """The job whose vertices are shown; empty: all jobs are."""
        self.chosen = 0
        self._is_fixed = bool(job_id)
        self._listed: list[str] = []

    def press(self, key: Key) -> bool:
        """Takes a key; answers whether to go on."""
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

    def drawn(self, figures: ClusterFigures, trouble: str = "") -> RenderableType:
        """What is shown of these figures. `trouble`: why there are no newer ones."""
        job = next((job for job in figures.jobs if job.id == self.job_id), None) if self.job_id else None
        self._listed = [v.id for v in job.vertices] if job is not None else [j.id for j in figures.jobs]
        self.chosen = min(self.chosen, max(0, len(self._listed) - 1))
        lines = [Text(cells.cluster_line(figures), style="bold")]
        lines += [Text(printable(line)) for line in cells.job_lines(job)] if job is not None else []
        table = self._vertices(job.vertices) if job is not None else self._jobs(figures)
        keys = "q quit   up/down choose   " + ("backspace jobs" if self.job_id else "enter vertices")
        return Group(*lines, Text(), table, Text(), Text(trouble or keys, style="red" if trouble else "dim"))

    def _jobs(self, figures: ClusterFigures) -> Table:
        table = _table(cells.JOBS)
        for index, job in enumerate(figures.jobs):
            table.add_row(*_texts(cells.job_cells(job)), style="reverse" if index == self.chosen else None)
        return table

    def _vertices(self, vertices: tuple[VertexFigures, ...]) -> Table:
        table = _table(cells.VERTICES)
        for index, vertex in enumerate(vertices):
            row = _texts(cells.vertex_cells(vertex))
            for column, share in zip(_SHARES, (vertex.busy, vertex.backpressured, vertex.busiest), strict=True):
                row[column].stylize(_heat(share))
            table.add_row(*row, style="reverse" if index == self.chosen else None)
        return table


def _table(headers: tuple[str, ...]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for header in headers:
        least = _ID if header == "JOB ID" else None
        justify: Literal["left", "right"] = "right" if header in _NUMBERS else "left"
        table.add_column(header, no_wrap=header != "", min_width=least, justify=justify)
    return table


_NUMBERS = frozenset({"TASKS", "RESTARTS", *cells.VERTICES[3:]})
_SHARES = [cells.VERTICES.index(name) for name in ("BUSY", "BACKPRESSURED", "BUSIEST")]
_ID = 32  # letters of an id, which is copied from here


def _texts(row: list[str]) -> list[Text]:
    return [Text(printable(cell)) for cell in row]


def _heat(share: float | None) -> str:
    if share is None or share < _WARM:
        return ""
    return "red" if share >= _HOT else "yellow"
