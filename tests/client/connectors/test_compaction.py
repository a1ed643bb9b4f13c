"""Small parts become large ones before they are visible; the conformance suite checks that nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sink_harness import SinkHarness

from millstream.common import Encoder, InvalidProgramError
from millstream.core.records.batches import RowBatch
from millstream.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    OutputFileConfig,
    RollingPolicy,
    StreamingFileSink,
)

_EVERY_TWO = FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build()
_CONCAT = FileCompactor.concat_file_compactor()


def _sink(folder: Path, strategy: FileCompactStrategy = _EVERY_TWO, compactor: FileCompactor = _CONCAT) -> FileSink:
    sink = FileSink.for_row_format(folder).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    return sink.enable_compact(strategy, compactor)


def _write(writer: SinkHarness, number: int, *records: str) -> Any:
    writer.write(RowBatch(list(records)))
    snapshot = writer.checkpoint(number)
    writer.complete(number)
    return snapshot


def _visible(folder: Path) -> list[str]:
    return sorted(path.read_text() for path in folder.rglob("*") if path.is_file() and path.name[0] != ".")


def _hidden(folder: Path) -> int:
    return len(list(folder.rglob(".*")))


def test_parts_wait_for_so_many_checkpoints_and_are_one(tmp_path: Path) -> None:
    writer = SinkHarness(_sink(tmp_path), checkpointed=True)
    _write(writer, 1, "a")
    assert (_visible(tmp_path), _hidden(tmp_path)) == ([], 1)
    _write(writer, 2, "b")
    assert (_visible(tmp_path), _hidden(tmp_path)) == (["a\nb\n"], 0)
    _write(writer, 3, "c")
    assert (_visible(tmp_path), _hidden(tmp_path)) == (["a\nb\n"], 1)
    writer.finish()
    writer.checkpoint(4)
    writer.complete(4)
    writer.close()
    assert (_visible(tmp_path), _hidden(tmp_path)) == (["a\nb\n", "c\n"], 0)


def test_or_for_so_many_bytes(tmp_path: Path) -> None:
    strategy = FileCompactStrategy.builder().set_size_threshold(6).set_num_compact_threads(2).build()
    writer = SinkHarness(_sink(tmp_path, strategy, FileCompactor.concat_file_compactor(b"--\n")), checkpointed=True)
    for number, record in enumerate("abcd", 1):
        _write(writer, number, record)
    writer.close()
    assert _visible(tmp_path) == ["a\n--\nb\n--\nc\n"]


def test_each_folder_is_gathered_by_itself(tmp_path: Path) -> None:
    by_letter = BucketAssigner.custom_bucket_assigner(lambda record: record[0])
    writer = SinkHarness(_sink(tmp_path).with_bucket_assigner(by_letter), checkpointed=True)
    _write(writer, 1, "a1", "b1")
    _write(writer, 2, "a2")
    writer.close()
    assert (_visible(tmp_path / "a"), _visible(tmp_path / "b")) == (["a1\na2\n"], ["b1\n"])


def test_a_restored_sink_continues_to_gather_and_counts_from_0(tmp_path: Path) -> None:
    first = SinkHarness(_sink(tmp_path), checkpointed=True)
    snapshot = _write(first, 1, "a")
    first.write(RowBatch(["lost"]))
    first.close()
    second = SinkHarness(_sink(tmp_path), checkpointed=True, attempt=1, restored=snapshot)
    _write(second, 2, "b")
    _write(second, 3, "c")
    second.close()
    assert (_visible(tmp_path), _hidden(tmp_path)) == (["a\nb\nc\n"], 0)


def test_another_job_takes_copies(tmp_path: Path) -> None:
    """Two jobs may be started from one checkpoint."""
    first = SinkHarness(_sink(tmp_path), checkpointed=True)
    snapshot = _write(first, 1, "a")
    first.close()
    for job in ("one", "other"):
        again = SinkHarness(_sink(tmp_path), checkpointed=True, job=job, restored=snapshot)
        _write(again, 2, job)
        _write(again, 3, "")
        again.close()
    assert _visible(tmp_path) == ["a\none\n\n", "a\nother\n\n"]


def test_a_sink_that_gathers_no_more_shows_what_it_had(tmp_path: Path) -> None:
    first = SinkHarness(_sink(tmp_path), checkpointed=True)
    snapshot = _write(first, 1, "a")
    first.close()
    second = SinkHarness(_sink(tmp_path).disable_compact(), checkpointed=True, attempt=1, restored=snapshot)
    _write(second, 2, "b")
    second.close()
    assert (_visible(tmp_path), _hidden(tmp_path)) == (["a\n", "b\n"], 0)


def test_a_savepoint_waits_for_nothing(tmp_path: Path) -> None:
    writer = SinkHarness(_sink(tmp_path), checkpointed=True)
    _write(writer, 1, "a")
    writer.write(RowBatch(["b"]))
    writer.checkpoint(2, savepoint=True)
    writer.checkpoint(3)
    writer.complete(3)
    writer.close()
    assert (_visible(tmp_path), _hidden(tmp_path)) == (["a\nb\n"], 0)


def test_identical_parts_only_become_visible_together(tmp_path: Path) -> None:
    writer = SinkHarness(_sink(tmp_path, _EVERY_TWO, FileCompactor.identical_file_compactor()), checkpointed=True)
    _write(writer, 1, "a")
    assert _visible(tmp_path) == []
    _write(writer, 2, "b")
    writer.close()
    assert (_visible(tmp_path), _hidden(tmp_path)) == (["a\n", "b\n"], 0)


@pytest.mark.parametrize(
    "sink",
    [
        FileSink.for_parquet("/tmp/none"),
        FileSink.for_csv("/tmp/none"),
        FileSink.for_row_format("/tmp/none", Encoder.simple_string_encoder("UTF-16")),
    ],
)
def test_files_that_cannot_be_joined_are_refused(sink: FileSink) -> None:
    with pytest.raises(InvalidProgramError, match="cannot be joined"):
        sink.enable_compact(_EVERY_TWO, _CONCAT)
    sink.enable_compact(_EVERY_TWO, FileCompactor.identical_file_compactor())


def test_a_strategy_that_never_compacts_is_refused() -> None:
    with pytest.raises(InvalidProgramError, match="nothing would ever become visible"):
        FileCompactStrategy.builder().build()
    for value in (0, -1, True, 1.5):
        with pytest.raises(InvalidProgramError, match="at least 1"):
            FileCompactStrategy.builder().set_size_threshold(value)  # type: ignore[arg-type]


def test_names_of_parts_are_set_as_in_pyflink(tmp_path: Path) -> None:
    names = OutputFileConfig.OutputFileConfigBuilder().with_part_prefix("pre").with_part_suffix(".suf").build()  # type: ignore[attr-defined]
    sink = StreamingFileSink.for_row_format(tmp_path, Encoder.simple_string_encoder()).with_output_file_config(names)
    writer = SinkHarness(sink.build())
    writer.write(RowBatch(["a"]))
    writer.finish()
    writer.close()
    (part,) = tmp_path.iterdir()
    assert part.name.startswith("pre-")
    assert part.suffix == ".suf"
