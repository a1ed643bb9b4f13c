"""What a hybrid source promises beside what every source does: the conformance suite has one as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_harness import SourceHarness
from thoroughness import cases

from millstream.common import Duration, InvalidProgramError, Types
from millstream.datastream.connectors.base import Boundedness, Source
from millstream.datastream.connectors.collection import CollectionSource
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system import DEAD_LETTERS, FileSource
from millstream.datastream.connectors.hybrid_source import HybridSource
from millstream.datastream.connectors.number_seq import NumberSequenceSource


def _chain(*sources: Source[Any]) -> HybridSource:
    builder = HybridSource.builder(sources[0])
    for source in sources[1:]:
        builder = builder.add_source(source)
    return builder.build()


@settings(max_examples=cases(50))
@given(parallelism=st.integers(1, 3), steps=st.lists(st.integers(0, 20), max_size=80))
def test_a_source_begins_when_the_one_before_it_has_ended_everywhere(parallelism: int, steps: list[int]) -> None:
    harness = SourceHarness(_chain(*(NumberSequenceSource(n * 10, n * 10 + 9) for n in range(3))), parallelism)
    for choice in steps:
        harness.step(choice, 2)
    harness.run_to_end(2)
    harness.close()
    assert [number // 10 for number in harness.emitted] == [0] * 10 + [1] * 10 + [2] * 10


@settings(max_examples=cases(50))
@given(
    steps=st.lists(st.integers(0, 20), max_size=120),
    after=st.lists(st.integers(0, 20), max_size=40),
    parallelism=st.integers(1, 3),
)
def test_a_reader_that_is_behind_the_others_is_restored_where_it_was(
    steps: list[int], after: list[int], parallelism: int
) -> None:
    """One reader fails after the switch; what it is given back it reads in a job of another parallelism."""
    harness = SourceHarness(_chain(NumberSequenceSource(0, 19), NumberSequenceSource(20, 59)), 2)
    for choice in steps:
        harness.step(choice, 3)
    lost = harness.by_subtask[0]
    harness.fail(0)
    harness.emitted = [number for number in harness.emitted if number not in lost]
    for choice in after:
        harness.step(choice, 3)
    harness.requests.clear()
    while True:  # a checkpoint is declined while splits wait for the reader, and tried again
        try:
            snapshot = harness.snapshot()
            break
        except ConnectorError:
            harness.step(len(after), 3)
            after.append(0)
    harness.close()
    again = SourceHarness(harness.source, parallelism, snapshot)
    assert sorted(again.run_to_end()) == list(range(60))
    again.close()


def test_its_type_and_whether_it_ends_follow_from_its_sources(tmp_path: Path) -> None:
    numbers, words = NumberSequenceSource(0, 1), CollectionSource(["a"], Types.STRING())
    files = FileSource.for_json_lines(tmp_path, on_error="dead-letter")
    endless = files.monitor_continuously(Duration.of_seconds(1))
    assert _chain(numbers, numbers).get_produced_type() == Types.LONG()
    assert _chain(numbers, words).get_produced_type() == Types.PICKLED_BYTE_ARRAY()
    assert _chain(numbers, words).get_boundedness() is Boundedness.BOUNDED
    assert _chain(numbers, endless).get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    assert _chain(files, files).side_outputs() == (DEAD_LETTERS,)


def test_nothing_follows_a_source_that_never_ends(tmp_path: Path) -> None:
    endless = FileSource.for_json_lines(tmp_path).monitor_continuously(1000)
    with pytest.raises(InvalidProgramError, match=r"FileSource, number 1, never ends"):
        HybridSource.builder(endless).add_source(NumberSequenceSource(0, 1))


def test_only_sources_are_taken() -> None:
    with pytest.raises(InvalidProgramError, match="expected a Source, got int"):
        HybridSource.builder(3)  # type: ignore[arg-type]


def test_collections_inside_are_shipped_as_files(tmp_path: Path) -> None:
    texts = [str(number) * 20_000 for number in range(80)]
    source, files = _chain(CollectionSource(texts), CollectionSource(texts[:1])).shipped(lambda: tmp_path)
    assert files
    harness = SourceHarness(source, 1)
    assert harness.run_to_end() == texts + texts[:1]
    harness.close()
