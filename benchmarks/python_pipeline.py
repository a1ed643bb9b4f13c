"""Plain Python functions through a shuffle: numbers, map to a pair, key_by 500 keys, reduce (sum), filter, sink.

Two slot workers against two processes of Bytewax, best of three each. Records/s are records divided by the time from
the first batch that a source makes to the last batch that a sink takes, over both processes: starting the processes is
not in it. The whole time, from the start of the programs to their end, is given beside it. Without checkpoints.
PyFlink (see pyflink_peer) is measured from the first record of a map to the last one behind the filter.
"""

from __future__ import annotations

import importlib.util
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import pyflink_peer
from processes import Run
from rows import BenchmarkError, Peer, Row, Scale, check, times_the_peer

KEYS = 500
TIMES = 3
PYFLINK_RECORDS = 200_000
TIMEOUT = 600.0


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of one execution: records/s without the start, and the seconds from start to end."""

    rate: float
    whole: float


def measure(scale: Scale) -> list[Row]:
    records = scale.of(2_000_000)
    bytewax, typed, untyped = [], [], []
    for _ in range(TIMES):  # alternately, so that a slow moment of the machine affects them alike
        bytewax.append(run_bytewax(records))
        typed.append(run_millstream(records, "typed"))
        untyped.append(run_millstream(records, "untyped"))
    peer = Peer("Bytewax, two processes", best(bytewax).rate)
    note = f"{all_rates(typed)}{pyflink_peer.absence(scale)}"
    return [
        Row("records/s, types declared", best(typed).rate, "records/s", times_the_peer(4), peer, note),
        Row("records/s, untyped lambdas", best(untyped).rate, "records/s", None, peer, all_rates(untyped)),
        _whole(typed, bytewax, records),
        *pyflink_peer.compared(
            "records/s, types declared", best(typed).rate, None, scale, "pipeline_pyflink.py", (PYFLINK_RECORDS,),
            _checked_rate,
        ),
    ]  # fmt: skip


def _whole(ours: list[Timing], theirs: list[Timing], records: int) -> Row:
    mine, other = min(t.whole for t in ours), min(t.whole for t in theirs)
    return Row(
        "records/s over the whole time, starts and ends included", records / mine, "records/s", None,
        Peer("Bytewax, two processes", records / other), f"{mine:.2f} s against {other:.2f} s for {records:,} records",
    )  # fmt: skip


def run_millstream(records: int, kind: str, *options: str, watch: Callable[[], object] | None = None) -> Timing:
    """Runs the pipeline on Millstream and checks its result. `watch` is called repeatedly while it runs."""
    with Run() as run:
        run.start("pipeline_millstream.py", str(records), kind, *options)
        while watch is not None and run.is_running:
            watch()
            time.sleep(0.01)
        whole = run.wait(TIMEOUT)
        check(run.marks("plan")[0]["strategies"] == ["HASH"], "the job's only exchange has to be a hash exchange")
        check(len({mark["pid"] for mark in run.marks("sink")}) == 2, "two slot workers had to take part")
        return Timing(_checked_rate(run, records), whole)


def run_bytewax(records: int, *arguments: str) -> Timing:
    """Runs the pipeline on Bytewax, with additional arguments, and checks its result."""
    with Run() as run:
        start_bytewax(run, f"pipeline_bytewax:pipeline({records})", *arguments)
        whole = run.wait(TIMEOUT)
        return Timing(_checked_rate(run, records), whole)


def start_bytewax(run: Run, flow: str, *arguments: str) -> None:
    """Starts a Bytewax flow in two processes."""
    if importlib.util.find_spec("bytewax") is None:
        raise BenchmarkError("Bytewax is not installed: it comes with the extra 'bench'")
    addresses = ";".join(f"127.0.0.1:{port}" for port in free_ports(2))
    for process in range(2):
        place = ("-i", str(process), "-a", addresses)
        run.start_command([sys.executable, "-m", "bytewax.run", flow, *place, *arguments])


def _checked_rate(run: Run, records: int) -> float:
    sources, sinks = run.marks("source"), run.marks("sink")
    check(len(sources) == 2 and len(sinks) == 2, f"two sources and two sinks had to report, not {sources}, {sinks}")
    counts, sums = expected(records)
    count = sum(mark["count"] for mark in sinks)
    check(count == counts, f"{counts} results had to come through the filter, not {count}")
    merged: dict[int, int] = {}
    for mark in sinks:
        for key, value in mark["values"].items():
            check(int(key) not in merged, f"key {key} is on both sides of the shuffle")
            merged[int(key)] = value
    check(merged == sums, "the sums of the keys are wrong")
    seconds = (max(mark["last"] for mark in sinks) - min(mark["first"] for mark in sources)) / 1e9
    return records / float(seconds)


def expected(records: int) -> tuple[int, dict[int, int]]:
    """Returns the number of running sums that are even, and the last sum of each key.

    All numbers of a key have the key's parity, so the order of arrival does not matter: every sum of an even key is
    even, every second one of an odd key, and the last one of every key, because each has an even number of numbers.
    """
    each, odd = divmod(records, KEYS)
    check(odd == 0 and each % 2 == 0, f"the number of records has to be a multiple of {2 * KEYS}, not {records}")
    sums = {key: each * key + KEYS * each * (each - 1) // 2 for key in range(KEYS)}
    return KEYS // 2 * each + KEYS // 2 * (each // 2), sums


def best(timings: list[Timing]) -> Timing:
    """Returns the timing with the highest rate."""
    return max(timings, key=lambda timing: timing.rate)


def all_rates(timings: list[Timing]) -> str:
    """Returns all rates as the text of a note."""
    return "runs: " + ", ".join(f"{timing.rate / 1e6:.2f} M" for timing in timings)


def free_ports(count: int) -> list[int]:
    """Returns ports that are not in use."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
