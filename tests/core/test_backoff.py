from __future__ import annotations

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from millstream.core.backoff import Backoff


def test_delays_grow_up_to_the_longest() -> None:
    assert list(islice(Backoff(0.5, 3.0).delays(), 5)) == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert list(islice(Backoff(100, 1000, 1.5).delays(), 3)) == [100, 150, 225]


def test_the_first_delay_is_as_it_was_set() -> None:
    assert list(islice(Backoff(5.0, 2.0).delays(), 3)) == [5.0, 2.0, 2.0]


def test_any_number_of_failures() -> None:
    assert Backoff(1.0, 60.0).after(10**9) == 60.0


@given(
    st.floats(0.001, 1e6), st.floats(0.001, 1e6), st.floats(0.1, 10), st.integers(1, 50)
)  # fmt: skip
def test_both_ways_to_a_delay_are_the_same(first: float, longest: float, factor: float, failures: int) -> None:
    backoff = Backoff(first, longest, factor)
    assert backoff.after(failures) == next(islice(backoff.delays(), failures - 1, None))
