"""Alignment groups as a strategy has them."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.common import Duration, WatermarkStrategy
from millstream.common.watermark_strategy import WatermarkAlignment
from millstream.core.errors import InvalidProgramError
from millstream.datastream import StreamExecutionEnvironment

PLAIN = WatermarkStrategy.for_monotonous_timestamps()


def test_a_group_has_a_drift_and_an_interval_of_a_second_if_none_is_given() -> None:
    made = PLAIN.with_watermark_alignment("g", Duration.of_seconds(20))
    assert made.alignment == WatermarkAlignment("g", 20_000, 1000)
    named = PLAIN.with_watermark_alignment(
        watermark_group="g", max_allowed_watermark_drift=Duration.of_millis(0), update_interval=Duration.of_millis(50)
    )
    assert named.alignment == WatermarkAlignment("g", 0, 50)
    assert PLAIN.alignment is None
    assert named.with_idleness(Duration.of_seconds(1)).alignment == named.alignment


@pytest.mark.parametrize(
    "wrong", [("", Duration.of_seconds(1)), (7, Duration.of_seconds(1)), ("g", -1), ("g", "1 s"), ("g", 1, 0)]
)
def test_what_is_no_alignment_is_refused(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidProgramError, match="with_watermark_alignment: "):
        PLAIN.with_watermark_alignment(*wrong)


def test_only_sources_can_wait_for_each_other() -> None:
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    aligned = PLAIN.with_watermark_alignment("g", 1)
    with pytest.raises(InvalidProgramError, match="only a source can wait for others; hand the strategy"):
        stream.assign_timestamps_and_watermarks(aligned)
