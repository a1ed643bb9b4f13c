"""Many schedules after each other; and one that failed, run again with all that the services logged."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator

from shapes import Shape
from simulation import Outcome, SimulationFailed, simulate

_GARBAGE_AFTER = 50  # runs: each leaves cycles behind, and to look for them after every one takes a third of the time


def _stop(failed: AssertionError) -> None:
    raise failed


def run_all(
    seeds: Iterable[int], folder: str, shape: Shape, on_failure: Callable[[AssertionError], None] = _stop
) -> list[Outcome]:
    """All of them, or those up to the first that fails. One that fails is run again (`replay`)."""
    outcomes: list[Outcome] = []
    with _few_collections():
        for number, seed in enumerate(seeds):
            try:
                outcomes.append(simulate(seed, folder, shape))
            except SimulationFailed as failed:
                on_failure(replay(failed, folder, shape))
            if number % _GARBAGE_AFTER == _GARBAGE_AFTER - 1:
                gc.collect()
    return outcomes


def replay(failed: SimulationFailed, folder: str, shape: Shape) -> AssertionError:
    """The same failure once more, at the same event, with what was logged on the way."""
    try:
        simulate(failed.seed, folder, shape, with_logs=True)
    except SimulationFailed as again:
        if (again.at, type(again.cause)) == (failed.at, type(failed.cause)):
            return again
        return AssertionError(f"the same seed failed otherwise when it was run again:\n{failed}\n\n{again}")
    return AssertionError(f"the same seed did not fail again:\n{failed}")


@contextlib.contextmanager
def _few_collections() -> Iterator[None]:
    gc.collect()
    gc.freeze()  # what was imported is not traversed
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()
