"""The expected output of a random job, computed from its plan in plain Python: the multiset of every stream."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random_plans import Node

Record = tuple[int, int]
Bag = Counter[Record]


def mix(*parts: Any) -> int:
    """A number that identifies these parts."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=6).digest())


def key_of(settings: dict[str, Any], record: Record) -> Any:
    """The key by which a node groups its input."""
    number = record[1] % settings["keys"]
    match settings["key"]:
        case "text":
            return f"schlüssel {number}"
        case "pair":
            return (number % 7, f"{number}")
    return number


def source(settings: dict[str, Any], index: int) -> Record:
    """The record at an index of a source."""
    return settings["first"] + index, mix(settings["first"], index) % 1_000_003


def evaluate(nodes: Iterable[Node]) -> dict[str, Bag]:
    """All streams by name, except side outputs that describe a run."""
    streams: dict[str, Bag] = {}
    for node in nodes:
        if node.kind != "sink":
            streams.update(evaluate_node(node, streams))
    return streams


def evaluate_node(node: Node, streams: dict[str, Bag]) -> dict[str, Bag]:
    """The streams that one node produces from those before it."""
    from timed_oracle import TIMED  # which imports this module

    evaluate = TIMED.get(node.kind) or _EVALUATE[node.kind]
    made: dict[str, Bag] = evaluate(node, *(streams[name] for name in node.inputs))
    return made


def keys_of(node: Node, bag: Bag) -> Counter[Any]:
    """How many records each key of a node's input has."""
    keys: Counter[Any] = Counter()
    for record, times in bag.items():
        keys[key_of(node.settings, record)] += times
    return keys


def is_ledger(stream: str) -> bool:
    """Whether a stream describes a run."""
    return stream.endswith("-ledger!side")


def _source(node: Node) -> dict[str, Bag]:
    return {node.name: Counter(source(node.settings, index) for index in range(node.settings["count"]))}


def _each(node: Node, bag: Bag, function: Any) -> dict[str, Bag]:
    out: Bag = Counter()
    for record, times in bag.items():
        for result in function(node.settings, record):
            out[result] += times
    return {node.name: out}


def mapped(settings: dict[str, Any], record: Record) -> list[Record]:
    """The output of `map` for a record."""
    return [(mix(settings["salt"], record[0]), (record[1] * 3 + settings["salt"]) % 1_000_003)]


def filtered(settings: dict[str, Any], record: Record) -> list[Record]:
    """The output of `filter` for a record."""
    return [record] if record[1] % settings["modulus"] != settings["rest"] else []


def multiplied(settings: dict[str, Any], record: Record) -> list[Record]:
    """The output of `flat_map` for a record."""
    return [(mix(record[0], copy), record[1] + copy) for copy in range(record[1] % settings["modulus"])]


def answered(settings: dict[str, Any], record: Record) -> list[Record]:
    """The result of the asynchronous function of `asked` for a record."""
    return [(mix(settings["salt"], record[0], copy), record[1]) for copy in range(record[1] % 3)]


def in_batches(settings: dict[str, Any], record: Record) -> list[Record]:
    """The output of `batches` for a record."""
    return [(record[0] + settings["salt"], record[1])] if record[1] % 5 else []


def sided(settings: dict[str, Any], record: Record) -> bool:
    """Whether `split` sends a record to its side output."""
    return record[1] % settings["modulus"] == 0


def _same(node: Node, bag: Bag) -> dict[str, Bag]:
    return {node.name: bag.copy()}


def _union(node: Node, *bags: Bag) -> dict[str, Bag]:
    return {node.name: sum(bags, Counter())}


def _split(node: Node, bag: Bag) -> dict[str, Bag]:
    side = Counter({record: times for record, times in bag.items() if sided(node.settings, record)})
    return {node.name: bag - side, f"{node.name}!side": side}


def counted(name: str, key: Any, count: int) -> Record:
    """What counting operators emit for the nth record of a key."""
    return mix(name, key, count), mix(key) % 1000


def _count(node: Node, *bags: Bag) -> dict[str, Bag]:
    keys = sum((keys_of(node, bag) for bag in bags), Counter[Any]())
    return {node.name: Counter(counted(node.name, key, n + 1) for key, total in keys.items() for n in range(total))}


def gathered(name: str, key: Any, ids: list[int]) -> Record:
    """The output of `gather` for a key when it has all records."""
    return mix(name, key, sorted(ids)), mix(key) % 1000


def _gather(node: Node, bag: Bag) -> dict[str, Bag]:
    keys: dict[Any, list[int]] = {}
    for record in bag.elements():
        keys.setdefault(key_of(node.settings, record), []).append(record[0])
    return {node.name: Counter(gathered(node.name, key, ids) for key, ids in keys.items())}


def joined(left: Record, right: Record) -> Record:
    """The output of `join` for two records of a key."""
    return mix(left, right), left[1]


def _join(node: Node, first: Bag, second: Bag) -> dict[str, Bag]:
    right: dict[Any, list[tuple[Record, int]]] = {}
    for record, times in second.items():
        right.setdefault(key_of(node.settings, record), []).append((record, times))
    out: Bag = Counter()
    for record, times in first.items():
        for other, other_times in right.get(key_of(node.settings, record), ()):
            out[joined(record, other)] += times * other_times
    return {node.name: out}


def from_either(number: int, record: Record) -> Record:
    """The output of `co_map` for a record of its first or second input."""
    return mix(number, record[0]), record[1]


def _co_map(node: Node, first: Bag, second: Bag) -> dict[str, Bag]:
    out: Bag = Counter()
    for number, bag in enumerate((first, second), 1):
        for record, times in bag.items():
            out[from_either(number, record)] += times
    return {node.name: out}


def ruled(record: Record, rules: dict[int, int]) -> Record:
    """The output of `rules` for a record."""
    return mix(record[0], rules[record[1] % len(rules)]), record[1]


def rule(record: Record, count: int) -> tuple[int, int]:
    """The number and the content of the rule that a record represents."""
    return record[0] % 1_000_000 % count, record[1]


def _rules(node: Node, bag: Bag, rules: Bag) -> dict[str, Bag]:
    known = dict(rule(record, node.settings["rules"]) for record in rules)
    out: Bag = Counter()
    for record, times in bag.items():
        out[ruled(record, known)] += times
    return {node.name: out}


_EVALUATE: dict[str, Any] = {
    "source": _source,
    "map": lambda node, bag: _each(node, bag, mapped),
    "filter": lambda node, bag: _each(node, bag, filtered),
    "flat_map": lambda node, bag: _each(node, bag, multiplied),
    "asked": lambda node, bag: _each(node, bag, answered),
    "batches": lambda node, bag: _each(node, bag, in_batches),
    "slow": _same,
    "share": _same,
    "ledger": _same,
    "union": _union,
    "split": _split,
    "count": _count,
    "reduce": _count,
    "co_count": _count,
    "keyed_rules": lambda node, bag, rules: _count(node, bag),
    "gather": _gather,
    "join": _join,
    "co_map": _co_map,
    "rules": _rules,
}
