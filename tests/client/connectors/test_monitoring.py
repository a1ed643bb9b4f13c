"""A file source that looks for new files reads each of them once, whatever happens between."""

from __future__ import annotations

import datetime
import logging
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_harness import Snapshot, SourceHarness
from thoroughness import cases

from millstream.common import Duration, InvalidProgramError
from millstream.datastream.connectors.base import Boundedness
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system import (
    FileEnumeratorProvider,
    FileSource,
    FileSplitAssignerProvider,
    StreamFormat,
)


def _source(path: Path) -> FileSource:
    lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), path)
    return lines.monitor_continuously(Duration.of_seconds(1)).build()


def _add(folder: Path, number: int) -> list[str]:
    lines = [f"{number}.{line}" for line in range(3)]
    (folder / f"{number:04}.txt").write_text("".join(f"{line}\n" for line in lines))
    return lines


def _settle(harness: SourceHarness) -> None:
    """Until every file that is there now has been read."""
    for choice in range(400):
        harness.step(choice, 2)


@settings(max_examples=cases(30))
@given(
    parallelism=st.integers(1, 3),
    happenings=st.lists(st.sampled_from(["file", "step", "step", "restore"]), max_size=30),
    steps=st.lists(st.integers(0, 20), min_size=1, max_size=20),
)
def test_each_file_is_read_once_over_failures_and_restores(
    parallelism: int, happenings: list[str], steps: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, written, snapshot = Path(name), [], Snapshot(None, [], [])
        harness = SourceHarness(_source(folder), parallelism)
        has_snapshot = False
        for number, happening in enumerate(happenings):
            match happening:
                case "file":
                    written += _add(folder, number)
                case "step":
                    for choice in steps:
                        harness.step(choice, 1)
                    snapshot, has_snapshot = harness.snapshot(), True
                case "restore" if has_snapshot:
                    harness.close()
                    harness = SourceHarness(_source(folder), parallelism, snapshot)
        _settle(harness)
        harness.close()
        assert sorted(harness.emitted) == sorted(written)


def test_splits_of_a_lost_reader_go_to_one_that_waits(tmp_path: Path) -> None:
    lines = _add(tmp_path, 1)
    harness = SourceHarness(_source(tmp_path), 2)
    _settle(harness)
    harness.emitted.clear()  # nothing of it was part of a checkpoint
    harness.fail(0)
    harness.fail(1)
    _settle(harness)
    harness.close()
    assert harness.emitted == lines


def test_it_is_unbounded(tmp_path: Path) -> None:
    source = _source(tmp_path)
    assert source.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    assert source.process_static_file_set().get_boundedness() is Boundedness.BOUNDED


def test_a_file_without_a_byte_is_none_yet(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    harness = SourceHarness(_source(tmp_path), 1)
    _settle(harness)
    assert harness.emitted == []
    (tmp_path / "a.txt").write_text("a\n")
    _settle(harness)
    (tmp_path / "a.txt").write_text("a\nb\n")
    _settle(harness)
    harness.close()
    assert harness.emitted == ["a"]


def test_a_folder_that_is_not_there_yet_is_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    harness = SourceHarness(_source(tmp_path / "later"), 1)
    with caplog.at_level(logging.WARNING):
        _settle(harness)
    assert [record.getMessage() for record in caplog.records] == [
        f"file source: {tmp_path}/later does not exist; it is looked for again every 1 s"
    ]
    (tmp_path / "later").mkdir()
    lines = _add(tmp_path / "later", 1)
    _settle(harness)
    harness.close()
    assert harness.emitted == lines


def test_a_pattern_may_match_nothing_yet(tmp_path: Path) -> None:
    harness = SourceHarness(_source(tmp_path / "*.txt"), 1)
    _settle(harness)
    lines = _add(tmp_path, 1)
    _settle(harness)
    harness.close()
    assert harness.emitted == lines


def test_a_snapshot_of_a_bounded_source_does_not_list_the_files_read(tmp_path: Path) -> None:
    _add(tmp_path, 1)
    with pytest.raises(ConnectorError, match="did not monitor"):
        SourceHarness(_source(tmp_path), 1, Snapshot([], [], []))


def test_a_bounded_source_continues_with_what_a_monitoring_one_had_found(tmp_path: Path) -> None:
    lines = _add(tmp_path, 1)
    first = SourceHarness(_source(tmp_path), 1)
    look, looked = first.background.popleft()
    looked(look(), None)
    snapshot = first.snapshot()
    first.close()
    _add(tmp_path, 2)
    second = SourceHarness(_source(tmp_path).process_static_file_set(), 1, snapshot)
    assert second.run_to_end() == lines
    second.close()


@pytest.mark.parametrize("interval", [0, -5, True, "1 s", datetime.timedelta(0)])
def test_an_interval_that_is_none_is_refused(tmp_path: Path, interval: Any) -> None:
    with pytest.raises(InvalidProgramError, match="monitor_continuously"):
        FileSource.for_json_lines(tmp_path).monitor_continuously(interval)


def test_files_are_read_in_one_piece_on_request(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("line\n" * 100)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path).with_block_size(10)
    assigner = FileSplitAssignerProvider.locality_aware_split_assigner()
    whole = source.set_file_enumerator(FileEnumeratorProvider.default_non_splittable_file_enumerator())
    for made, splits in ((source, 50), (whole.set_split_assigner(assigner), 1)):
        harness = SourceHarness(made, 1)
        assert harness.run_to_end() == ["line"] * 100
        assert len(harness.assigned[0]) == splits
        harness.close()
