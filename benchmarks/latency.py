"""Percentiles of the latencies reported by `jobs/latencies.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from processes import Run
from rows import check

NS_PER_MS = 1e6
NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles in milliseconds over the records sent from one slot worker to another."""

    p50: float
    p99: float
    highest: float
    samples: int


def of_run(run: Run, warm_up: float) -> Latency:
    """Returns the percentiles without the records of the first seconds and those that stayed in their slot worker."""
    samples: np.ndarray[Any, Any] = run.samples("latencies")
    moments, ages, remote = samples[:, 0], samples[:, 1], samples[:, 2]
    counted = ages[(moments >= moments.min() + warm_up * NS_PER_S) & (remote == 1)]
    check(len(counted) >= 1000, f"only {len(counted)} records to measure latency by: the run was too short")
    check(counted.min() > 0, "records arrived before they were due: the reference time of the latency is wrong")
    p50, p99 = np.percentile(counted, [50, 99]) / NS_PER_MS
    return Latency(float(p50), float(p99), float(counted.max()) / NS_PER_MS, len(counted))
