"""A snapshot continues with the input that it was taken of. A program with another one is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from source_harness import SourceHarness

from millstream.core.errors import UnrecoverableError
from millstream.datastream.connectors import FileSource, StreamFormat
from millstream.datastream.connectors.base import Source
from millstream.datastream.connectors.collection import CollectionSource
from millstream.datastream.connectors.datagen import ColumnDataGeneratorSource, DataGeneratorSource
from millstream.datastream.connectors.hybrid_source import HybridSource
from millstream.datastream.connectors.number_sequence import NumberSequenceSource


def one(index: int) -> int:
    return index


def column(start: int, n: int) -> dict[str, list[int]]:
    return {"i": list(range(start, start + n))}


def both(first: Source, second: Source) -> Source:
    return HybridSource.builder(first).add_source(second).build()


CHANGED = [
    (NumberSequenceSource(0, 49), NumberSequenceSource(0, 99), "50 numbers from 0 on", "100 numbers"),
    (NumberSequenceSource(0, 49), NumberSequenceSource(0, 9), "50 numbers from 0 on", "10 numbers"),
    (NumberSequenceSource(0, 49), NumberSequenceSource(1, 49), "50 numbers from 0 on", "49 numbers from 1 on"),
    (CollectionSource(range(40)), CollectionSource(range(41)), "40 elements", "41 elements"),
    (CollectionSource(range(40)), CollectionSource([]), "40 elements", "0 elements"),
    (DataGeneratorSource(one, 30), DataGeneratorSource(one, 31), "30 records", "31 records"),
    (DataGeneratorSource(one, 30), DataGeneratorSource(one), "30 records", "endless records"),
    (DataGeneratorSource(one), DataGeneratorSource(one, 30), "endless records", "30 records"),
    (ColumnDataGeneratorSource(column, 30), ColumnDataGeneratorSource(column, 29), "30 records", "29 records"),
    (
        both(CollectionSource(range(40)), NumberSequenceSource(0, 9)),
        both(CollectionSource(range(60)), NumberSequenceSource(0, 9)),
        "40 elements",
        "60 elements",
    ),
]


@pytest.mark.parametrize("steps", [0, 1, 9], ids=["at the beginning", "at once", "later"])
@pytest.mark.parametrize(("before", "after", "was", "asked"), CHANGED)
def test_a_changed_range_is_refused_and_the_same_continues(
    before: Source, after: Source, was: str, asked: str, steps: int
) -> None:
    with SourceHarness(before, 2) as harness:
        harness.steps([(choice, 3) for choice in range(steps)])
        snapshot = harness.snapshot()
    SourceHarness(before, 3, snapshot).close()
    with pytest.raises(UnrecoverableError, match="another uid") as caught:
        SourceHarness(after, 2, snapshot)
    assert was in str(caught.value)
    assert asked in str(caught.value)


def test_a_list_of_splits_is_a_state_too_as_far_as_they_fit() -> None:
    """Of earlier versions, and of snapshots that a program writes."""
    with SourceHarness(NumberSequenceSource(0, 49), 2) as harness:
        snapshot = harness.snapshot()
    listed = replace(snapshot, enumerator=list(snapshot.enumerator.pending))
    again = SourceHarness(NumberSequenceSource(0, 49), 2, listed)
    assert sorted(again.run_to_end()) == list(range(50))
    again.close()
    with pytest.raises(UnrecoverableError, match="50 numbers"):
        SourceHarness(NumberSequenceSource(0, 9), 2, listed)


def test_a_hybrid_source_without_the_source_that_was_being_read_is_refused() -> None:
    with SourceHarness(both(CollectionSource([]), NumberSequenceSource(0, 49)), 1) as harness:
        while not harness.emitted:
            harness.step(0, 3)
            harness.step(1, 3)
        snapshot = harness.snapshot()
    with pytest.raises(UnrecoverableError, match="source number 2, and the program now has 1"):
        SourceHarness(HybridSource.builder(NumberSequenceSource(0, 49)).build(), 1, snapshot)


def test_a_file_source_continues_with_its_paths_and_others_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "lines").write_text("".join(f"{folder}{line}\n" for line in range(9)))

    def of(*folders: str) -> Source:
        paths = [tmp_path / folder for folder in folders]
        return FileSource.for_record_stream_format(StreamFormat.text_line_format(), *paths)

    with SourceHarness(of("a", "b"), 1) as harness:
        choice = 0
        while not harness.emitted:
            harness.step(choice, 3)
            choice += 1
        snapshot = harness.snapshot()
    with pytest.raises(UnrecoverableError, match=f"{tmp_path}/a, {tmp_path}/b, and the program now has {tmp_path}/a:"):
        SourceHarness(of("a"), 1, snapshot)
    listed = replace(snapshot, enumerator=list(snapshot.enumerator.pending))  # of earlier versions
    for state in (snapshot, listed):
        with SourceHarness(of("b", "a"), 1, state) as again:
            assert len(again.run_to_end()) == 18
