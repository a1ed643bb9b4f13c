"""Leaders are killed in turn under a running job: a job manager, a resource manager, a dispatcher, of two of each.

The job counts 2,000 records/s by key with a checkpoint every 200 ms, in two slots on two task managers. The time is
from SIGKILL until another one acts: a job manager has taken over the tasks and completed a checkpoint that began after
the kill, a resource manager has all task managers, a dispatcher shows the job with its tasks running. The gap is the
longest time between two results, from the kill until a second after that. With ZooKeeper, the session's timeout is part
of the time; in a directory there is none, since the kernel reports which process is dead.
"""

from __future__ import annotations

from typing import Any

from processes import Run
from rows import Row, Scale, at_most, check

ROUNDS = 2
RATE = 2_000
SESSION_TIMEOUTS = {"file": 0.0, "zookeeper": 2.0}
SERVICES = {"jobmanager": "job manager", "resourcemanager": "resource manager", "dispatcher": "dispatcher"}
WITHIN = 3.0  # seconds, after the session's timeout
GAP = 0.2  # seconds: tasks keep running, so only the noise of the machine delays records


def measure(scale: Scale) -> list[Row]:
    """Runs the failovers; the long form has more of them."""
    rounds = ROUNDS if scale.factor <= 1 else 3 * ROUNDS
    return [row for store, timeout in SESSION_TIMEOUTS.items() for row in _of_store(store, timeout, rounds)]


def _of_store(store: str, timeout: float, rounds: int) -> list[Row]:
    with Run() as run:
        run.start("failover_cluster.py", store, f"{timeout:g}", str(rounds), str(RATE))
        run.wait(120 + 60 * rounds)
        failovers, (quiet,), (lost,) = run.marks("failover"), run.marks("quiet"), run.marks("lost")
    check(not lost["keys"], f"counts of the keys {lost['keys']} are lost")
    check(not lost["restarted"], "the job's tasks had to keep running, but were restarted")
    rows: list[Row] = []
    for service, name in SERVICES.items():
        killed = [each for each in failovers if each["service"] == service]
        check(len(killed) == rounds, f"{rounds} times a {name} had to be killed, not {len(killed)}")
        acting, gaps = [each["acting"] for each in killed], [each["gap"] for each in killed]
        after = f", session timeout {timeout:g} s" if timeout else ""
        what = f"{store}: killed {name}, until another acts"
        rows += [
            Row(what, max(acting), "s", at_most(timeout + WITHIN), note=f"the longest of{_all(acting, 2)}{after}"),
            Row(f"{store}: killed {name}, gap in the output", max(gaps), "s", at_most(GAP), note=_noise(quiet, gaps)),
        ]
    return rows


def _noise(quiet: dict[str, Any], gaps: list[float]) -> str:
    return f"the longest of{_all(gaps, 3)}; {quiet['gap']:.3f} while nothing is killed"


def _all(values: list[float], digits: int) -> str:
    return " " + ", ".join(f"{each:.{digits}f}" for each in values)
