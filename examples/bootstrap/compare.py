"""Compares a job that started from a savepoint with one that read everything: `compare.py TOTALS ALL`."""

import json
import sys
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def lines_of(folder: str) -> list[Line]:
    return [json.loads(line) for part in Path(folder).glob("part-*.jsonl") for line in part.read_text().splitlines()]


def last_of(lines: list[Line]) -> dict[str, tuple[int, int]]:
    """Each user's visits and cents, after the last visit."""
    return {line["user"]: (line["visits"], line["cents"]) for line in sorted(lines, key=lambda line: line["visits"])}


def seen_of(lines: list[Line]) -> dict[tuple[str, str], int]:
    """How often each user saw each page, in the end."""
    return {(line["user"], line["page"]): line["seen"] for line in sorted(lines, key=lambda line: line["seen"])}


def main(totals: str, everything: str) -> None:
    live, all_lines = lines_of(totals), lines_of(everything)
    visits = [(line["user"], line["visits"]) for line in live]
    assert len(set(visits)) == len(visits), "a visit was counted twice"
    assert set(visits) <= {(line["user"], line["visits"]) for line in all_lines}, "a visit too many"
    assert last_of(live) == last_of(all_lines), "other totals"
    assert seen_of(live).items() <= seen_of(all_lines).items(), "other pages"
    before = len(all_lines) - len(live)
    print(f"The same totals for {len(last_of(live))} users: {len(live)} visits counted on {before}.")


if __name__ == "__main__":
    main(*sys.argv[1:])
