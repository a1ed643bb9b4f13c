"""Which subtasks an edge connects, for every combination of parallelisms."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millstream.core.jobs.plan.plan import STRATEGY_NAMES
from millstream.core.jobs.wiring import POINTWISE, consumers_of

_width = st.integers(1, 40)
ALL_TO_ALL = sorted(set(STRATEGY_NAMES.values()) - POINTWISE)


def all_consumers(strategy: str, producers: int, consumers: int) -> list[list[int]]:
    return [consumers_of(strategy, producer, producers, consumers) for producer in range(producers)]


def test_the_pointwise_strategies_are_strategies() -> None:
    assert set(STRATEGY_NAMES.values()) > POINTWISE


@given(st.sampled_from(ALL_TO_ALL), _width, _width)
def test_other_strategies_connect_all_subtasks(strategy: str, producers: int, consumers: int) -> None:
    assert all_consumers(strategy, producers, consumers) == [list(range(consumers))] * producers


@given(st.sampled_from(sorted(POINTWISE)), _width)
def test_pointwise_edges_between_equal_widths_are_one_to_one(strategy: str, width: int) -> None:
    assert all_consumers(strategy, width, width) == [[i] for i in range(width)]


@given(st.sampled_from(sorted(POINTWISE)), _width, _width)
def test_pointwise_edges_leave_no_subtask_unconnected_and_share_evenly(
    strategy: str, producers: int, consumers: int
) -> None:
    wiring = all_consumers(strategy, producers, consumers)
    assert all(wiring), "a producer without a consumer"
    flat = [consumer for targets in wiring for consumer in targets]
    assert flat == sorted(flat)
    assert set(flat) == set(range(consumers)), "a consumer without a producer"
    if producers <= consumers:
        assert len(flat) == consumers
        shares = [len(targets) for targets in wiring]
    else:
        assert len(flat) == producers
        shares = [flat.count(consumer) for consumer in range(consumers)]
    assert max(shares) - min(shares) <= 1
