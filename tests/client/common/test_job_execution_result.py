"""The result of a finished job."""

from __future__ import annotations

from millstream.common import JobExecutionResult


def test_an_accumulator_that_the_job_had_not_is_none() -> None:
    result = JobExecutionResult("ab" * 16, 5, {"seen": 3})
    assert (result.get_accumulator_result("seen"), result.get_accumulator_result("other")) == (3, None)
    assert result.get_all_accumulator_results() == {"seen": 3}
