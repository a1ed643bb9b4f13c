"""Spark finds the differences that `millstream state diff` finds, and returns them as DataFrames."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from snapshot_maker import Maker

from millstream.core.records import types as t
from millstream.core.snapshot import StateKind, StateTypes
from millstream.core.snapshot.inspection import diff
from millstream.core.snapshot.inspection.diff import diff_snapshots
from millstream.core.snapshot.inspection.opened import open_snapshot
from millstream.spark.savepoint_diff import SavepointDiff

pytestmark = [pytest.mark.process, pytest.mark.slow]

WINDOW = 64  # rows: several windows, and parts, for a few hundred rows
COUNTS = StateTypes(t.STRING, t.LONG)
WINDOWS = StateTypes(t.STRING, t.LONG, t.TupleType((t.LONG, t.LONG), ("start", "end")))


def make(folder: Path, side: int, max_parallelism: int) -> str:
    maker = Maker(folder, max_parallelism, rows_per_file=100)
    new = side == 2
    counts = {f"k{n}": n for n in range(600 + side)} | ({"k5": -1} if new else {"gone": 1})
    objects: dict[str, Any] = {"a": {1, 2}, "b": [side]}
    states = [
        maker.values("counts", counts, COUNTS),
        maker.maps("maps", {1: {"m": 1.5, "n": float("nan"), "o": float(side)}},
                   StateTypes(t.LONG, t.DOUBLE, map_key=t.STRING)),
        maker.lists("lists", {"a": [1, 2, side], "b": [1]}, COUNTS),
        maker.timers("timers", [("a", 7, "event"), ("b", side, "processing")], StateTypes(t.STRING)),
        maker.values("windows", {"a": 1}, WINDOWS, namespaces=[(0, side)]),
        maker.values("objects", objects, StateTypes(t.STRING, t.PICKLED)),
        maker.values("narrow", {"a": 1}, StateTypes(t.STRING, t.LONG if new else t.INT)),
        maker.values("rekeyed", {"1": 1} if new else {1: 1}, COUNTS if new else StateTypes(t.LONG, t.LONG)),
    ]  # fmt: skip
    maker.operator("counter", *states, *([] if new else [maker.values("old", {"x": 1}, COUNTS)]))
    maker.operator(
        "rules",
        maker.broadcast("rules", {"r": 1, "s": side}, StateTypes(value=t.LONG, map_key=t.STRING), copies=2),
        maker.elements("buffer", [["x", "x"], ["y"]] if new else [["x"], ["z"]], StateTypes(value=t.STRING)),
        maker.elements("splits", [[{"at": side}]], StateTypes(value=t.PICKLED), StateKind.SPLITS),
    )
    if new:
        maker.operator("late", maker.values("counts", {"n": 1, "m": 2}, COUNTS))
    maker.properties["enumerator.rules"] = "AA==" if new else "AQ=="
    return maker.finish().location


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    monkeypatch.setattr(diff, "WINDOW_ROWS", WINDOW)
    return make(tmp_path / "1", 1, 128), make(tmp_path / "2", 2, 96)


def test_the_summary_equals_that_of_the_command(spark: Any, sides: tuple[str, str]) -> None:
    opened = [open_snapshot(side) for side in sides]
    expected = diff_snapshots(*opened, 3)
    assert SavepointDiff(spark, *sides, WINDOW).summary(3) == expected
    assert [state.name for state in expected.operators[0].states if state.equal] == []
    assert SavepointDiff.compare(spark, sides[0], sides[0]).summary(5).equal


def test_entries_are_rows_and_counted(spark: Any, sides: tuple[str, str]) -> None:
    compared = SavepointDiff(spark, *sides, WINDOW)
    rows = [row.asDict() for row in compared.entries().collect()]
    found = {
        (row["operator"], row["state"], row["change"], *(row[name] and json.loads(row[name]) for name in ("key",)))
        for row in rows
        if row["operator"] == "counter" and row["state"] in ("counts", "lists", "objects", "narrow", "old", "rekeyed")
    }
    assert found == {
        ("counter", "counts", "changed", "k5"), ("counter", "counts", "removed", "gone"),
        ("counter", "counts", "added", "k601"), ("counter", "lists", "changed", "a"),
        ("counter", "objects", "changed", "b"), ("counter", "old", "removed", "x"),
    }  # fmt: skip
    (entry,) = (row for row in rows if row["state"] == "maps")
    assert entry == {
        "operator": "counter", "state": "maps", "kind": "map", "change": "changed", "key": "1", "namespace": None,
        "map_key": '"o"', "old": "1.0", "new": "2.0",
    }  # fmt: skip
    timers = {(row["change"], row["key"], row["old"] or row["new"]) for row in rows if row["state"] == "timers"}
    assert timers == {
        ("removed", '"b"', '{"timestamp": 1, "domain": "processing"}'),
        ("added", '"b"', '{"timestamp": 2, "domain": "processing"}'),
    }
    windows = {(row["change"], row["key"], row["namespace"]) for row in rows if row["state"] == "windows"}
    assert windows == {("removed", '"a"', "[0, 1]"), ("added", '"a"', "[0, 2]")}
    others = {(row["state"], row["change"], row["map_key"], row["old"], row["new"]) for row in rows[-100:]
              if row["operator"] in ("rules", "late") and row["state"] != "splits"}  # fmt: skip
    assert others == {
        ("rules", "changed", '"s"', "1", "2"), ("buffer", "added", None, None, '"x"'),
        ("buffer", "added", None, None, '"y"'), ("buffer", "removed", None, '"z"', None),
        ("counts", "added", None, None, "1"), ("counts", "added", None, None, "2"),
    }  # fmt: skip
    counts = {(row.operator, row.state): (row.added, row.removed, row.changed) for row in compared.counts().collect()}
    assert counts["counter", "counts"] == (1, 1, 1)
    assert counts["late", "counts"] == (2, 0, 0)
    assert counts["rules", "buffer"] == (2, 1, 0)
    assert sum(map(sum, counts.values())) == len(rows)
