"""The results as a Markdown table, for readers and for comparing two runs."""

from __future__ import annotations

from collections.abc import Sequence

from rows import Row, Target

_HEADER = "| what | measured | target | met | peer | ratio |\n|---|---|---|---|---|---|"


def markdown(
    machine: Sequence[tuple[str, str]], results: Sequence[tuple[str, str, list[Row] | str]], form: str, seconds: float
) -> str:
    """Returns the report in Markdown.

    A result consists of a benchmark's name, its description, and its rows or the reason of its failure.
    """
    lines = [
        "# Benchmark results",
        "",
        f"Written by `make bench` ({form} form, {seconds:.0f} s in all). Every benchmark checks its job's results.",
        "Figures are from one machine at one time; the ratios to peers that ran beside it travel better.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in machine),
    ]
    for name, description, result in results:
        lines += ["", f"## {name}", "", description, ""]
        if isinstance(result, str):
            lines += ["FAILED:", "", "```", result, "```"]
            continue
        lines += [_HEADER, *map(_line, result)]
        notes = [f"- {row.what}: {row.note}" for row in result if row.note]
        if notes:
            lines += ["", *notes]
    return "\n".join(lines) + "\n"


def plain(row: Row) -> str:
    """Returns the row as a line for the terminal."""
    parts = [f"{row.what}: {quantity(row.value, row.unit)}"]
    if row.peer is not None and row.ratio is not None:
        parts.append(f"{row.ratio:.2f} x {row.peer.name} ({quantity(row.peer.value, row.unit)})")
    if row.target is not None:
        parts.append(f"target {_bound(row.target, row.unit)} {'met' if row.is_met else 'NOT MET'}")
    if row.note:
        parts.append(row.note)
    return "; ".join(parts)


def quantity(value: float, unit: str) -> str:
    """Returns a figure with its unit and three significant digits."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g} M {unit}"
    if abs(value) >= 1e3:
        return f"{value / 1e3:.3g} k {unit}"
    return f"{value:.3g} {unit}"


def _line(row: Row) -> str:
    met = {True: "yes", False: "**no**", None: ""}[row.is_met]
    target = _bound(row.target, row.unit) if row.target is not None else ""
    peer = ratio = ""
    if row.peer is not None and row.ratio is not None:
        where = "" if row.peer.same_run else ", published"
        peer, ratio = f"{row.peer.name}{where}: {quantity(row.peer.value, row.unit)}", f"{row.ratio:.2f}"
    return f"| {row.what} | {quantity(row.value, row.unit)} | {target} | {met} | {peer} | {ratio} |"


def _bound(target: Target, unit: str) -> str:
    sign = "at least" if target.at_least else "at most"
    return f"{sign} {target.limit:g} x the peer" if target.of_ratio else f"{sign} {quantity(target.limit, unit)}"
