"""How many cases a test tries where any number would do: all in `make test-slow`, a quarter in the smaller targets.

`make check` and `make test` run pytest with `--hypothesis-profile=daily`, which is the only difference.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

FULL = 100
DAILY = 25


def register_profiles() -> None:
    """Loads the full profile; pytest's option, which is read later, may select the other."""
    # On a busy machine any example may be slow, above all the first one, which loads its modules; so may generating it.
    # In CI the examples are the same each time, Hypothesis's default there: daily runs are random.
    for name, examples in (("full", FULL), ("daily", DAILY)):
        settings.register_profile(
            name,
            max_examples=examples,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
            derandomize="CI" in os.environ,
        )
    settings.load_profile("full")


def cases(full: int) -> int:
    """The number of cases, out of `full`, in this run: for the examples of a test, its seeds, its schedules."""
    return max(1, full * settings.default.max_examples // FULL)


def every(step: int = 1) -> int:
    """The step through a range of cases in this run; `step` is the one in CI."""
    return step * FULL // settings.default.max_examples
