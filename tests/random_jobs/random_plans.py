"""Random jobs, as data: a graph of operators that `random_program` builds and `random_oracle` evaluates.

A record is a pair (id, value) of integers. The complete output of an operator depends only on its complete input, not
on the order: so the result of a job is one multiset for each of its ends, whatever happens while it runs.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from random_oracle import Bag, evaluate_node, keys_of
from timed_oracle import TIMED

PARTITIONS = ("", "", "", "rebalance", "rescale", "shuffle", "global_", "forward", "custom")
STATES = ("value", "list", "map", "reducing", "aggregating")
ORDERS = ("ordered", "unordered")
KEY_KINDS = ("number", "text", "pair", "field", "column")
MOST = 12_000
"""Records of one stream: more would take too long."""


@dataclass(frozen=True, slots=True)
class Node:
    """One step. Its inputs are names of nodes, or `name!side` for a side output."""

    name: str
    kind: str
    inputs: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    parallelism: int | None = None
    chaining: str = ""
    partitions: tuple[str, ...] = ()
    typed: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """All nodes, inputs before consumers."""

    nodes: tuple[Node, ...]
    uids: bool = True

    def __str__(self) -> str:
        return "\n".join(map(str, self.nodes))


class Planner:
    """Makes one plan. With `repeats`, records may occur more than once, which some operators do not support.

    With `drains`, event time may end before the input does: then nothing depends on event time.
    """

    def __init__(self, chance: random.Random, repeats: bool, drains: bool = False) -> None:
        self._chance = chance
        self._repeats = repeats
        self._drains = drains
        self._nodes: list[Node] = []
        self._streams: dict[str, Bag] = {}
        self._used: set[str] = set()
        self._open: list[str] = []

    def plan(self, operators: int) -> Plan:
        """Random sources, the operators, and a sink at each end."""
        chance = self._chance
        for _ in range(chance.choice((1, 1, 2, 3))):
            source = self._source()
            if chance.random() < 0.5:
                self._node(source).settings["seconds"] = 0.1
                self._slow(source, chance.choice(("rebalance", "shuffle", "global_")))
        for _ in range(operators):
            getattr(self, f"_{chance.choice(KINDS)}")()
        for stream in [name for name in self._open if name not in self._used]:
            form = chance.choice(("json", "json", "text", "parquet", "csv"))
            self._sink(stream, form)
        return Plan(tuple(self._nodes), chance.random() < 0.8)

    def _sink(self, stream: str, form: str) -> None:
        policy = self._chance.choice(("checkpoint", "size", "size", "time"))
        self._add("sink", (stream,), {"format": form, "policy": policy}, opens=False)

    def _source(self, count: int | None = None) -> str:
        chance = self._chance
        count = chance.randint(200, 1500) if count is None else count
        form = chance.choice(("generator", "generator", "columns", "sequence", "collection", "files"))
        settings = {
            "form": form,
            "count": count,
            "first": 1_000_000 * (1 + len(self._nodes)),
            "seconds": chance.uniform(2.0, 6.0),
            "files": chance.randint(1, 7),
        }
        parallelism = 1 if form == "collection" else chance.choice((None, None, 1, 2, 3))
        return self._add("source", (), settings, parallelism=parallelism)

    def _map(self) -> None:
        self._add("map", (self._pick(),), {"salt": self._salt()})

    def _slow(self, stream: str = "", partition: str = "") -> None:
        """Takes a few seconds in total; after a fast source most records wait between the two."""
        stream = stream or self._pick()
        millis = min(20.0, 1000 * self._chance.uniform(1.0, 4.0) / max(1, self._streams[stream].total()))
        self._add("slow", (stream,), {"millis": millis}, partition=partition)

    def _filter(self) -> None:
        modulus = self._chance.randint(2, 5)
        self._add("filter", (self._pick(),), {"modulus": modulus, "rest": self._chance.randrange(modulus)})

    def _flat_map(self) -> None:
        self._add("flat_map", (self._pick(),), {"modulus": self._chance.randint(2, 4)})

    def _asked(self) -> None:
        settings = {"asked": self._chance.choice(ORDERS), "capacity": self._chance.choice((5, 20, 100))}
        self._add("asked", (self._pick(),), {"salt": self._salt(), **settings})

    def _batches(self) -> None:
        form = self._chance.choice(("arrow", "pandas"))
        self._add("batches", (self._pick(),), {"salt": self._salt(), "form": form})

    def _union(self) -> None:
        inputs = tuple(self._pick() for _ in range(self._chance.choice((2, 2, 3))))
        self._add("union", inputs, {})

    def _split(self) -> None:
        if name := self._add("split", (self._pick(),), {"modulus": self._chance.randint(2, 4)}):
            self._open.append(f"{name}!side")

    def _count(self) -> None:
        self._keyed("count", 1, {"state": self._chance.choice(STATES)})

    def _reduce(self) -> None:
        self._keyed("reduce", 1, {"form": self._chance.choice(("reduce", "sum"))})

    def _gather(self) -> None:
        if not self._repeats:
            self._keyed("gather", 1, {})

    def _co_count(self) -> None:
        self._keyed("co_count", 2, {})

    def _join(self) -> None:
        self._keyed("join", 2, {})

    def _co_map(self) -> None:
        self._add("co_map", (self._pick(), self._pick()), {"form": self._chance.choice(("map", "flat_map", "process"))})

    def _rules(self) -> None:
        rules = self._source(self._chance.randint(2, 12))
        self._used.add(rules)
        self._add("rules", (self._pick({rules}), rules), {"rules": self._node(rules).settings["count"]})

    def _keyed_rules(self) -> None:
        rules = self._source(self._chance.randint(2, 12))
        self._used.add(rules)
        self._keyed("keyed_rules", 1, {"first": self._node(rules).settings["first"]}, rules)

    def _timed(self) -> None:
        """Windows, timers or a join, with sources of its own."""
        if self._repeats or self._drains:
            return
        chance = self._chance
        kind = chance.choice(sorted(TIMED))
        sources = 1 if kind == "windows" else chance.choice((1, 2)) if kind == "timers" else 2
        lower, size = chance.randint(-400, 300), chance.choice((30, 100, 250, 700))
        settings = {
            "sources": [self._timed_source(side) for side in range(sources)],
            "keys": chance.choice((5, 40, 200)),
            "key": chance.choice(("number", "text", "pair")),
            "window": chance.choice(("tumbling", "sliding", "session")),
            "form": chance.choice(("process", "aggregate", "columns", "columns")),
            "size": size,
            "slide": chance.choice((size // 2, size // 3 + 1)),
            "lateness": chance.choice((0, 0, 200)),
            "lower": lower,
            "upper": lower + chance.randint(0, 600),
        }
        self._add(kind, (), settings)

    def _timed_source(self, side: int) -> dict[str, Any]:
        chance, count = self._chance, self._chance.randint(150, 600)
        seconds = chance.uniform(1.0, 2.5)
        return {
            "form": chance.choice(("generator", "columns")),
            "count": count,
            "first": 1_000_000 * (1 + len(self._nodes)) + 500_000 * side,
            "seconds": seconds,
            "millis": chance.choice((0, 0, min(10.0, 1000 * seconds / count))),
            "asked": chance.choice(("", "", *ORDERS)),
            "capacity": chance.choice((2, 20)),
        }

    def _ledger(self) -> None:
        self._sink(f"{self._add('ledger', (self._pick(),), {})}!side", "json")

    def _share(self) -> None:
        self._add("share", (self._pick(),), {}, parallelism=self._chance.randint(1, 3))

    def _salt(self) -> int:
        return self._chance.randrange(1, 1000)

    def _keyed(self, kind: str, inputs: int, settings: dict[str, Any], *more: str) -> None:
        chance = self._chance
        keys = chance.choice((1, 5, 40, 200))
        if kind == "join":
            keys = 400
        form = chance.choice(KEY_KINDS if inputs == 1 else ("number", "text", "pair"))
        picked = tuple(self._pick(set(more)) for _ in range(inputs))
        self._add(kind, (*picked, *more), {**settings, "keys": keys, "key": form})

    def _add(
        self,
        kind: str,
        inputs: tuple[str, ...],
        settings: dict[str, Any],
        parallelism: int | None = None,
        opens: bool = True,
        partition: str = "",
    ) -> str:
        chance = self._chance
        name = f"n{len(self._nodes)}-{kind}"
        if parallelism is None and kind != "source" and chance.random() < 0.3:
            parallelism = chance.randint(1, 4)
        chaining = chance.choice(("", "", "", "", "disable_chaining", "start_new_chain"))
        partitions = tuple(partition or chance.choice(PARTITIONS) for _ in inputs)
        node = Node(name, kind, inputs, settings, parallelism, chaining, partitions, chance.random() < 0.6)
        self._nodes.append(node)
        if opens and not self._fits(node):
            self._nodes.pop()
            return ""
        self._used.update(inputs)
        if opens:
            self._open.append(name)
        return name

    def _fits(self, node: Node) -> bool:
        """Whether there are not too many records; sets how many records of each key there are to gather."""
        if node.kind == "join":
            first, second = (keys_of(node, self._streams[name]) for name in node.inputs)
            if sum(times * second[key] for key, times in first.items()) > MOST:
                return False
        made = evaluate_node(node, self._streams)
        if made[node.name].total() > MOST:
            return False
        if node.kind == "gather":
            keys = keys_of(node, self._streams[node.inputs[0]])
            node.settings["expected"] = {repr(key): times for key, times in keys.items()}
        self._streams.update(made)
        return True

    def _node(self, name: str) -> Node:
        return next(node for node in self._nodes if node.name == name)

    def _pick(self, without: Collection[str] = ()) -> str:
        """A stream, preferably one that is not consumed yet."""
        streams = [name for name in self._open if name and name not in without]
        fresh = [name for name in streams if name not in self._used]
        return self._chance.choice(fresh if fresh and self._chance.random() < 0.8 else streams)


KINDS = (
    "map", "slow", "slow", "filter", "flat_map", "asked", "asked", "batches", "union", "split", "count", "count",
    "reduce", "gather", "co_count", "join", "co_map", "rules", "keyed_rules", "ledger", "share", "timed", "timed",
    "timed",
)  # fmt: skip
