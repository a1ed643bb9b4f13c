"""The pipeline of `python_pipeline` over ten million records, from `execute_and_collect()` to the last result.

Only sums that are multiples of 500 pass the filter: 136,000 results, which the program gathers in a list. The time is
taken inside of the programs, from the call that runs the job to the last result that it gets: with the start of the
embedded cluster and of the slot workers, without that of the program's own interpreter and its imports. Bytewax runs
the flow in two processes, each of which gathers its own results. Best of two each. Neither side has checkpoints on.
PyFlink (see pyflink_peer) gets fewer records, so its start would weigh more: its time is from the first record of the
map to the last result, without its start.
"""

from __future__ import annotations

import math

import pyflink_peer
from processes import Run
from python_pipeline import KEYS, TIMEOUT, expected, free_ports
from rows import Peer, Row, Scale, check, times_the_peer

TIMES = 2
PYFLINK_RECORDS = 500_000


def measure(scale: Scale) -> list[Row]:
    records = scale.of(10_000_000)
    bytewax, typed, untyped = [], [], []
    for _ in range(TIMES):  # alternately, so that a slow moment of the machine affects them alike
        typed.append(run_millstream(records, "typed"))
        untyped.append(run_millstream(records, "untyped"))
        bytewax.append(run_bytewax(records))
    peer = Peer("Bytewax, two processes", records / min(bytewax))
    against = f"; Bytewax: {_seconds(bytewax)}"
    rows = [
        Row(
            f"records/s from start to last result, {name}", records / min(times), "records/s", times_the_peer(4), peer,
            _seconds(times) + against,
        )
        for name, times in (("types declared", typed), ("untyped lambdas", untyped))
    ]  # fmt: skip
    return rows + pyflink_peer.compared(
        rows[0].what, rows[0].value, None, scale, "collected_pyflink.py", (PYFLINK_RECORDS,), _pyflink_rate
    )


def _pyflink_rate(run: Run, records: int) -> float:
    _checked_seconds(run, records)
    first = min(mark["first"] for mark in run.marks("source"))
    return records / (run.marks("collected")[0]["last"] - first) * 1e9


def run_millstream(records: int, kind: str) -> float:
    """Runs the pipeline on Millstream, checks its result and returns the seconds."""
    with Run() as run:
        run.start("collected_millstream.py", str(records), kind)
        run.wait(TIMEOUT)
        return _checked_seconds(run, records)


def run_bytewax(records: int) -> float:
    """Runs the pipeline on Bytewax, checks its result and returns the seconds."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    with Run() as run:
        for process in range(2):
            run.start("collected_bytewax.py", str(records), str(process), *addresses)
        run.wait(TIMEOUT)
        return _checked_seconds(run, records)


def _checked_seconds(run: Run, records: int) -> float:
    """Checks the results; returns the seconds from the first start to the last result.

    The sum of any n numbers of a key has the same remainder as n times the key. This determines for which n each key
    has a result. Its last sum is a result if the key has a multiple of 500 numbers.
    """
    check(records % KEYS**2 == 0, f"the number of records has to be a multiple of {KEYS**2}, not {records}")
    marks = run.marks("collected")
    count = sum(mark["count"] for mark in marks)
    wanted = sum(records // KEYS // (KEYS // math.gcd(key, KEYS)) for key in range(KEYS))
    check(count == wanted, f"{wanted} results had to come through the filter, not {count}")
    merged = {int(key): value for mark in marks for key, value in mark["values"].items()}
    check(sum(len(mark["values"]) for mark in marks) == KEYS, "every key had to be on one side of the shuffle")
    check(merged == expected(records)[1], "the sums of the keys are wrong")
    return float(max(mark["last"] for mark in marks) - min(mark["first"] for mark in marks)) / 1e9


def _seconds(times: list[float]) -> str:
    return ", ".join(f"{seconds:.2f} s" for seconds in times)
