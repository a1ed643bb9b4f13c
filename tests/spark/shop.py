"""A snapshot with a state of each kind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from snapshot_maker import Maker
from written_states import WINDOW

from millstream.core.records import types as t
from millstream.core.snapshot import StateKind, StateTypes


@dataclass
class Order:
    item: str
    price: float | None = None


ORDER = t.DataclassType(Order)


def shop_snapshot(folder: Path) -> str:
    """Writes the snapshot; returns its path."""
    maker = Maker(folder, rows_per_file=300)
    maker.operator(
        "counter",
        maker.values("counts", {n: n * n for n in range(1000)}, StateTypes(t.LONG, t.LONG)),
        maker.values("orders", {"a": Order("tea", 1.5), "b": Order("cup")}, StateTypes(t.STRING, ORDER)),
        maker.values("seen", {"a": {"n": 1, "tags": ["x"]}, "b": None}, StateTypes(t.STRING, t.PICKLED)),
        maker.values("mixed", {(1, "k"): (2, {"n": 3})}, StateTypes(t.PICKLED, t.TupleType((t.LONG, t.PICKLED)))),
        maker.maps("prices", {"a": {"tea": 1.5, "cup": 3.0}}, StateTypes(t.STRING, t.DOUBLE, map_key=t.STRING)),
        maker.values("open", {"a": 5}, StateTypes(t.STRING, t.LONG, WINDOW), namespaces=[(0, 1000)]),
        maker.timers("timers", [("a", 1000, "event")], StateTypes(t.STRING)),
    )
    splits = maker.elements("splits", [[("file", 7)], [("other", 9)]], StateTypes(value=t.PICKLED), StateKind.SPLITS)
    maker.operator("source", splits, name="Source")
    return maker.write()
