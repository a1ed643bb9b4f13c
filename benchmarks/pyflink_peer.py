"""PyFlink as a peer, if it is installed: in an environment of its own, which `make bench-peers` creates.

It runs with two slots, object reuse, and Python in Java's threads: the faster of its two modes by far, for windows over
1,000 keys 10 k records/s against 1.8 k. It gets fewer records, because it takes so much longer, and runs twice; the
better run counts.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from processes import Run
from rows import Peer, Row, Scale, Target, times_the_peer

MODE = "thread"
TIMES = 2
TIMEOUT = 600.0
WANTED = times_the_peer(100)
_PYTHON = Path(__file__).parent / ".peers" / "pyflink" / "bin" / "python"


def installed() -> str | None:
    """Returns the path of an interpreter with PyFlink; None unless it and Java are installed."""
    return str(_PYTHON) if _PYTHON.exists() and (shutil.which("java") or "JAVA_HOME" in os.environ) else None


def compared(
    what: str, ours: float, target: Target | None, scale: Scale, script: str, arguments: tuple[int, ...],
    rate: Callable[[Run, int], float],
) -> list[Row]:  # fmt: skip
    """Returns rows that compare records/s with PyFlink, whose `rate` is computed from a run; none without PyFlink."""
    if scale.pyflink is None:
        return []
    rates, versions = [], []
    for _ in range(TIMES):
        with Run() as run:
            run.start(script, *map(str, arguments), MODE, python=scale.pyflink)
            run.wait(TIMEOUT)
            rates.append(rate(run, arguments[0]))
            versions.append(run.marks("version")[0]["flink"])
    peer = Peer(f"PyFlink {versions[0]}, {MODE} mode, two slots", max(rates))
    note = f"PyFlink got {arguments[0]:,} records; runs: {', '.join(f'{each / 1e3:.1f} k' for each in rates)}"
    return [Row(f"{what}, against PyFlink", ours, "records/s", target, peer, note)]


def absence(scale: Scale) -> str:
    """Returns the note for a comparison that is not available."""
    return "" if scale.pyflink is not None else "; PyFlink is not installed (make bench-peers), so not compared"
