"""The expected output of the event-time parts of random jobs: windows, timers and joins, each with its own sources.

The timestamp of a record follows from its position in its source, with some disorder, so that nothing is ever late. The
output depends on every record being processed once, and on event time ending only with the input.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from random_oracle import Bag, Record, joined, key_of, mix, source

if TYPE_CHECKING:
    from random_plans import Node

STEP = 10
"""Milliseconds between two records of a source, except for the disorder."""
DISORDER = 50

Window = tuple[int, int]
Grouped = dict[tuple[Any, Window], tuple[list[Record], ...]]


def time_of(first: int, record: Record) -> int:
    """The timestamp of a record of the source with this first id."""
    return (record[0] - first) * STEP + mix(record[0]) % DISORDER


def records_of(settings: dict[str, Any]) -> list[tuple[int, Record]]:
    """All records of a source, with their timestamps."""
    records = [source(settings, index) for index in range(settings["count"])]
    return [(time_of(settings["first"], record), record) for record in records]


def of_window(name: str, key: Any, window: Window, *sides: list[int]) -> Record:
    """The output for a window, or for two that are grouped: the ids of its records."""
    return mix(name, key, *window, *map(sorted, sides)), mix(key) % 1000


def of_total(name: str, key: Any, window: Window, count: int, total: int) -> Record:
    """The output for a window of which only a count and a sum are kept."""
    return mix(name, key, *window, count, total), mix(key) % 1000


def of_timer(name: str, key: Any, time: int, count: int) -> Record:
    """The output for a timer: the number of records of its key so far."""
    return mix(name, key, time, count), mix(key) % 1000


def due_after(settings: dict[str, Any], time: int) -> int:
    """The time of the timer that a record sets."""
    return time - time % int(settings["size"]) + int(settings["size"]) - 1


def _grouped(node: Node) -> Grouped:
    """The records of each source in each window of each key."""
    settings, count = node.settings, len(node.settings["sources"])
    stamped = [
        (time, side, record) for side, made in enumerate(settings["sources"]) for time, record in records_of(made)
    ]
    groups: Grouped = {}
    sessions: dict[Any, Window] = {}
    for time, side, record in sorted(stamped):
        key = key_of(settings, record)
        for window in _windows(settings, time):
            if settings["window"] == "session":
                before = sessions.get(key)
                held: tuple[list[Record], ...] = tuple([] for _ in range(count))
                if before is not None and time <= before[1]:
                    held, window = groups.pop((key, before)), (before[0], window[1])
                sessions[key] = window
                groups[key, window] = held
            groups.setdefault((key, window), tuple([] for _ in range(count)))[side].append(record)
    return groups


def _windows(settings: dict[str, Any], time: int) -> list[Window]:
    size, slide = settings["size"], settings["slide"]
    if settings["window"] == "session":
        return [(time, time + size)]
    step = slide if settings["window"] == "sliding" else size
    return [(start, start + size) for start in range(time - time % step, time - size, -step)]


def _ids(records: list[Record]) -> list[int]:
    return [record[0] for record in records]


def windows(node: Node) -> dict[str, Bag]:
    """Every window of every key."""
    out: Bag = Counter()
    for (key, window), (records,) in _grouped(node).items():
        if node.settings["form"] in ("aggregate", "columns"):
            out[of_total(node.name, key, window, len(records), sum(_ids(records)))] += 1
        else:
            out[of_window(node.name, key, window, _ids(records))] += 1
    return {node.name: out}


def window_join(node: Node) -> dict[str, Bag]:
    """Every pair of every window."""
    pairs = [(one, two) for first, second in _grouped(node).values() for one in first for two in second]
    return {node.name: Counter(joined(one, two) for one, two in pairs)}


def co_group(node: Node) -> dict[str, Bag]:
    """Both sides of every window, of any key: the function does not get it."""
    groups = _grouped(node).values()
    return {node.name: Counter(of_window(node.name, None, (0, 0), _ids(one), _ids(two)) for one, two in groups)}


def interval_join(node: Node) -> dict[str, Bag]:
    """Every pair in the interval."""
    settings = node.settings
    right: dict[Any, list[tuple[int, Record]]] = {}
    for time, record in records_of(settings["sources"][1]):
        right.setdefault(key_of(settings, record), []).append((time, record))
    out: Bag = Counter()
    for time, record in records_of(settings["sources"][0]):
        for at, other in right.get(key_of(settings, record), ()):
            if settings["lower"] <= at - time <= settings["upper"]:
                out[joined(record, other)] += 1
    return {node.name: out}


def timers(node: Node) -> dict[str, Bag]:
    """Every timer: each key has one per time."""
    times: dict[Any, list[int]] = {}
    for made in node.settings["sources"]:
        for time, record in records_of(made):
            times.setdefault(key_of(node.settings, record), []).append(time)
    due = {(key, due_after(node.settings, time)) for key, own in times.items() for time in own}
    return {node.name: Counter(of_timer(node.name, key, at, sum(time <= at for time in times[key])) for key, at in due)}


TIMED = {
    "windows": windows,
    "window_join": window_join,
    "co_group": co_group,
    "interval_join": interval_join,
    "timers": timers,
}
"""The expected output of each kind of node."""
