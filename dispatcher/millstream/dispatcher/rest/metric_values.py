"""Metrics as REST shows them, in Flink's shapes: which there are, their values, or what several come to. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from millstream.core.metrics.model import MetricGroup, Number
from millstream.core.metrics.naming import written
from millstream.dispatcher.metrics.store import number_of
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.table import Parameter, RestError

_MOST_SUBTASKS = 32768
_HOT_KEYS = 20
WANTED_METRICS = Parameter(
    "get", {"type": "string"}, "The ids of metrics whose values are wanted, with commas between."
)


def _skew(values: Sequence[float]) -> float:
    """By how many percent of the average a value is away from it, on average; 100 at the most. As Flink has it."""
    average = math.fsum(values) / len(values)
    if not average:
        return 0.0
    away = math.fsum(abs(value - average) for value in values) / len(values)
    return min(100.0, abs(away / average) * 100.0)


AGGREGATIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "avg": lambda values: math.fsum(values) / len(values),
    "sum": math.fsum,
    "skew": _skew,
}


def single(values: Mapping[str, Number], wanted: str | None) -> list[Json]:
    """Of one thing: ids, or the values of those that are wanted."""
    if wanted is None:
        return [{"id": name} for name in values]
    return [{"id": name, "value": written(values[name])} for name in wanted.split(",") if name in values]


def aggregated(values: Iterable[Mapping[str, Number]], wanted: str | None, aggregations: Sequence[str]) -> list[Json]:
    """Of several things of a kind: ids, or what those that are wanted come to."""
    known = list(values)
    if wanted is None:
        return [{"id": name} for name in dict.fromkeys(name for one in known for name in one)]
    found: list[Json] = []
    for name in dict.fromkeys(wanted.split(",")):
        figures = [float(one[name]) for one in known if name in one and math.isfinite(one[name])]
        if figures:
            found.append({"id": name, **{how: float(AGGREGATIONS[how](figures)) for how in aggregations}})
    return found


def hot_keys(groups: Iterable[MetricGroup]) -> Json:
    """Which keys come most often at a vertex: its subtasks are sampled alike, so that their samples add up."""
    subtasks: list[Json] = []
    counts: dict[tuple[str, int], float] = {}
    total = 0.0
    for group in groups:
        if "hotKeys" in group.tops:
            subtask, sampled = number_of(group, "subtask_index"), float(group.gauges.get("numKeysSampled", 0))
            share = float(group.gauges.get("hotKeyShare", 0))
            subtasks.append({"subtask": subtask, "sampled": sampled, "hot-key-share": share})
            total += sampled
            for key, count in group.tops["hotKeys"].items():
                counts[key, subtask] = counts.get((key, subtask), 0.0) + count
    hottest = sorted(counts.items(), key=lambda entry: entry[1], reverse=True)[:_HOT_KEYS]
    return {
        "sampled": total,
        "hot-keys": [{"key": key, "share": count / (total or 1), "subtask": at} for (key, at), count in hottest],
        "subtasks": sorted(subtasks, key=lambda entry: entry["subtask"]),
    }


def wanted_aggregations(text: str | None) -> list[str]:
    """All of them by default."""
    if text is None:
        return list(AGGREGATIONS)
    wanted = list(dict.fromkeys(text.split(",")))
    for name in wanted:
        if name not in AGGREGATIONS:
            raise RestError(400, f"agg: '{name[:100]}' is not one of {', '.join(AGGREGATIONS)}")
    return wanted


def wanted_subtasks(text: str | None, known: Collection[int]) -> list[int]:
    """Of `0,3-5`: those that there are; all by default."""
    if text is None:
        return sorted(known)
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not _is_index(first) or (dash and not _is_index(last)):
            raise RestError(400, f"subtasks: '{part[:100]}' is neither a subtask nor a range; write it like 0,3-5")
        found.update(index for index in known if int(first) <= index <= int(last or first))
    return sorted(found)


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_SUBTASKS))
