"""What the file sink does at checkpoints, and what it makes of an earlier attempt's files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from sink_harness import SinkHarness

from millstream.core.clock import ManualClock
from millstream.core.records.batches import Barrier, RowBatch
from millstream.core.records.types import LONG, RowType
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system import BucketAssigner, Encoder, FileSink, RollingPolicy

ON_CHECKPOINT = RollingPolicy.on_checkpoint_rolling_policy()
POLICIES = [None, ON_CHECKPOINT]


def text(folder: Path, policy: RollingPolicy | None = None) -> FileSink:
    return FileSink.for_row_format(folder).with_rolling_policy(policy or RollingPolicy.default_rolling_policy())


def start(sink: FileSink, subtask: int = 0, parallelism: int = 1, rows: Sequence[Any] = (), **more: Any) -> SinkHarness:
    """An attempt that has written these rows."""
    writer = SinkHarness(sink, subtask, parallelism, checkpointed=True, **more)
    if rows:
        writer.write(RowBatch(list(rows)))
    return writer


def hidden(folder: Path) -> set[str]:
    return {p.name for p in folder.rglob(".*")}


def shown(folder: Path) -> list[str]:
    """The lines of all visible files."""
    files = [p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".")]
    return sorted(line for p in files for line in p.read_text().split())


def left_by(writer: SinkHarness, *rows: str) -> list[Any]:
    """What a checkpoint holds of an attempt that wrote these rows, and then ended."""
    writer.write(RowBatch(list(rows)))
    held = writer.checkpoint(1)
    writer.close()
    return held


def end(writer: SinkHarness, *rows: str) -> None:
    """The last rows and the final checkpoint of a bounded job."""
    if rows:
        writer.write(RowBatch(list(rows)))
    writer.finish()
    writer.commit(9)
    writer.close()


def test_a_rolled_part_waits_for_the_checkpoint_that_holds_it(tmp_path: Path) -> None:
    writer = start(text(tmp_path, RollingPolicy.default_rolling_policy(part_size=1)), rows=["a"])
    writer.write(RowBatch(["b"]))
    assert (len(hidden(tmp_path)), shown(tmp_path)) == (2, [])
    writer.checkpoint(1)
    writer.write(RowBatch(["c"]))
    assert shown(tmp_path) == []
    writer.complete(1)
    assert (len(hidden(tmp_path)), shown(tmp_path)) == (1, ["a", "b"])
    writer.close()
    assert (hidden(tmp_path), shown(tmp_path)) == (set(), ["a", "b"])


def test_text_parts_continue_over_checkpoints_unless_the_policy_ends_them(tmp_path: Path) -> None:
    for policy, parts in ((None, 1), (ON_CHECKPOINT, 2)):
        folder = tmp_path / str(parts)
        writer = start(text(folder, policy), rows=["a"])
        writer.commit(1)
        end(writer, "b")
        assert (len(list(folder.iterdir())), shown(folder)) == (parts, ["a", "b"])


def test_parquet_ends_its_parts_with_every_checkpoint(tmp_path: Path) -> None:
    writer = start(FileSink.for_parquet(tmp_path, RowType((LONG,), ("i",))))
    for number in (1, 2):
        writer.write(RowBatch([(number,)]))
        writer.commit(number)
    assert [len(hidden(tmp_path)), len(list(tmp_path.iterdir()))] == [0, 2]
    assert sorted(pq.read_table(tmp_path).column("i").to_pylist()) == [1, 2]
    writer.close()


def test_a_restored_attempt_continues_a_copy_of_the_open_part(tmp_path: Path) -> None:
    first = start(text(tmp_path), rows=["a"])
    held = first.checkpoint(1)
    (original,) = hidden(tmp_path)
    first.write(RowBatch(["lost"]))
    second = start(text(tmp_path), attempt=1, restored=held)
    first.write(RowBatch(["from a zombie"]))
    first.operator.prepare_snapshot(Barrier(2, 0))
    second.write(RowBatch(["b"]))
    assert original in hidden(tmp_path)  # until a checkpoint holds the copy, a failure needs it
    again = second.checkpoint(2)
    assert original in hidden(tmp_path)
    second.complete(2)
    assert original not in hidden(tmp_path)
    end(second)
    first.close()
    assert (shown(tmp_path), hidden(tmp_path)) == (["a", "b"], set())
    third = start(text(tmp_path), attempt=2, restored=again)  # a snapshot of the past: its part is committed by now
    end(third)
    assert shown(tmp_path) == ["a", "b"]


def test_a_savepoint_ends_all_parts_and_leaves_nothing_once_a_checkpoint_has_committed_them(tmp_path: Path) -> None:
    writer = start(text(tmp_path), rows=["a"])
    writer.commit(1)
    writer.write(RowBatch(["b"]))
    writer.checkpoint(2, savepoint=True)
    writer.write(RowBatch(["c"]))
    assert shown(tmp_path) == []
    writer.commit(3)
    assert (shown(tmp_path), len(hidden(tmp_path))) == (["a", "b"], 1)
    end(writer)
    assert (shown(tmp_path), hidden(tmp_path)) == (["a", "b", "c"], set())


@pytest.mark.parametrize("policy", POLICIES)
def test_a_savepoint_stays_good_when_the_job_falls_back_behind_it(tmp_path: Path, policy: Any) -> None:
    first = start(text(tmp_path, policy), rows=["a"])
    checkpoint = first.commit(1)
    first.write(RowBatch(["b"]))
    savepoint = first.checkpoint(2, savepoint=True)
    end(start(text(tmp_path, policy), attempt=1, restored=checkpoint), "b")
    assert shown(tmp_path) == ["a", "b"]
    fork = tmp_path / "fork"
    end(start(text(fork, policy), job="another", restored=savepoint), "c")
    first.close()
    assert shown(fork) == ["c"]
    again = ["a", "a", "b", "b"] if policy is None else ["a", "b", "b"]
    assert (shown(tmp_path), hidden(tmp_path)) == (sorted([*again, "c"]), set())


@pytest.mark.parametrize("policy", POLICIES)
def test_what_a_failed_savepoint_was_to_hold_goes_with_the_dead_attempt(tmp_path: Path, policy: Any) -> None:
    first = start(text(tmp_path, policy), rows=["a"])
    checkpoint = first.commit(1)
    first.write(RowBatch(["b"]))
    first.checkpoint(2, savepoint=True)
    (kept,) = (name for name in hidden(tmp_path) if name.endswith(".savepoint"))
    start(text(tmp_path, policy), attempt=1, restored=checkpoint, failed_savepoints={1, 3}).close()
    start(text(tmp_path, policy), job="another", attempt=1, failed_savepoints={2}).close()
    assert kept in hidden(tmp_path), "the savepoint may be good, or another job's"
    third = start(text(tmp_path, policy), attempt=2, restored=checkpoint, failed_savepoints={2})
    assert kept not in hidden(tmp_path)
    end(third, "b")
    first.close()
    assert (shown(tmp_path), hidden(tmp_path)) == (["a", "b"], set())


def test_what_a_failed_savepoint_was_to_hold_stays_when_a_checkpoint_holds_it(tmp_path: Path) -> None:
    first = start(text(tmp_path), rows=["a"])
    first.checkpoint(2, savepoint=True)
    checkpoint = first.checkpoint(3)
    second = start(text(tmp_path), attempt=1, restored=checkpoint, failed_savepoints={2})
    assert shown(tmp_path) == ["a"]
    end(second)
    first.close()
    assert (shown(tmp_path), hidden(tmp_path)) == (["a"], set())


def test_a_text_with_a_byte_order_mark_and_a_csv_with_a_header_have_them_once(tmp_path: Path) -> None:
    sinks = (
        (FileSink.for_row_format(tmp_path / "text", Encoder.simple_string_encoder("UTF-16")), ["é"], ["ü"]),
        (FileSink.for_csv(tmp_path / "csv"), [{"a": 1, "b": 2}], [{"b": 4, "a": 3}]),
    )
    for sink, before, after in sinks:
        first = start(sink)
        first.write(RowBatch(before))
        held = first.checkpoint(1)
        first.close()
        second = start(sink, attempt=1, restored=held)
        second.write(RowBatch(after))
        end(second)
    (text_part,), (csv_part,) = (tmp_path / "text").iterdir(), (tmp_path / "csv").iterdir()
    assert text_part.read_text("utf-16") == "é\nü\n"
    assert csv_part.read_text() == "a,b\n1,2\n3,4\n"


def test_a_failure_before_the_next_checkpoint_can_be_repeated(tmp_path: Path) -> None:
    held = left_by(start(text(tmp_path)), "a")
    for attempt in range(1, 4):
        failing = start(text(tmp_path), attempt=attempt, restored=held, rows=["b"])
        failing.checkpoint(attempt + 1)
        failing.close()
    end(start(text(tmp_path), attempt=4, restored=held), "b")
    assert (shown(tmp_path), hidden(tmp_path)) == (["a", "b"], set())


def test_a_part_that_was_rolled_after_a_checkpoint_held_it_survives_the_failure(tmp_path: Path) -> None:
    first = start(text(tmp_path, RollingPolicy.default_rolling_policy(part_size=4)), rows=["a"])
    held = first.checkpoint(1)
    first.write(RowBatch(["b"]))  # full: part of a transaction that is aborted
    first.close()
    second = start(text(tmp_path), attempt=1, restored=held)
    end(second)
    assert (shown(tmp_path), hidden(tmp_path)) == (["a"], set())


def test_a_commit_is_finished_wherever_the_first_one_stopped(tmp_path: Path) -> None:
    writer = start(text(tmp_path, ON_CHECKPOINT), rows=["a"])
    held = writer.checkpoint(1)
    (name,) = hidden(tmp_path)
    os.link(tmp_path / name, tmp_path / name[1:].split(".")[0])  # and then the machine stopped
    writer.close()
    for attempt in (1, 2):
        start(text(tmp_path), attempt=attempt, restored=held).close()
        assert (shown(tmp_path), hidden(tmp_path)) == (["a"], set())


def test_an_open_part_that_was_removed_is_named(tmp_path: Path) -> None:
    held = left_by(start(text(tmp_path)), "a")
    (name,) = hidden(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(ConnectorError, match=r"part-.* is lost: .*neither it nor"):
        start(text(tmp_path), attempt=1, restored=held)


def test_a_finished_part_that_was_removed_is_named(tmp_path: Path) -> None:
    writer = start(text(tmp_path, ON_CHECKPOINT), rows=["a"])
    writer.checkpoint(1)
    (name,) = hidden(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(ConnectorError, match=r"part-.* is lost: .*neither it nor"):
        writer.complete(1)
    writer.close()


@pytest.mark.parametrize("with_folder", [False, True])
def test_readers_may_move_away_what_is_visible(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, with_folder: bool
) -> None:
    sink = text(tmp_path, ON_CHECKPOINT).with_bucket_assigner(BucketAssigner.custom_bucket_assigner(lambda row: "x"))
    writer = start(sink, rows=["a"])
    held = writer.commit(1)
    writer.close()
    (part,) = tmp_path.glob("x/part-*")
    part.unlink()
    if with_folder:
        part.parent.rmdir()
    again = start(sink, attempt=1, restored=held)
    assert f"{part} is lost" in caplog.text
    end(again, "b")
    assert (shown(tmp_path), hidden(tmp_path)) == (["b"], set())


def test_a_reader_that_moves_a_part_away_does_not_get_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever call on the file system the attempt dies after."""
    for call in ("rename", "link", "unlink", "fsync"):
        folder = tmp_path / call
        writer = start(text(folder, ON_CHECKPOINT), rows=["a"])
        held = writer.checkpoint(1)
        with monkeypatch.context() as patched:
            patched.setattr(os, call, dies_after(getattr(os, call)))
            with suppress(Killed):
                writer.complete(1)
        taken = [part.read_text() for part in folder.glob("part-*")]
        for part in folder.glob("part-*"):
            part.unlink()
        start(text(folder), attempt=1, restored=held).close()
        taken += [part.read_text() for part in folder.glob("part-*")]
        assert taken == ["a\n"], f"when it died after {call}"


def test_a_reader_may_be_faster_than_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    rename = os.rename

    def renamed_and_taken(source: str, target: str) -> None:
        rename(source, target)
        taken.append(Path(target).read_text())
        os.unlink(target)

    monkeypatch.setattr(os, "rename", renamed_and_taken)
    end(start(text(tmp_path, ON_CHECKPOINT)), "a")
    assert taken == ["a\n"]


class Killed(BaseException):
    """The process is gone."""


def dies_after(call: Callable[..., Any]) -> Callable[..., Any]:
    def called(*arguments: Any, **more: Any) -> Any:
        call(*arguments, **more)
        raise Killed

    return called


def test_a_shortened_part_is_named(tmp_path: Path) -> None:
    held = left_by(start(text(tmp_path)), "abcdef")
    (name,) = hidden(tmp_path)
    os.truncate(tmp_path / name, 3)
    with pytest.raises(ConnectorError, match=r"is damaged: 7 bytes of it belong to the .* checkpoint, and it has 3"):
        start(text(tmp_path), attempt=1, restored=held)
    assert hidden(tmp_path) == {name}


def test_only_leftovers_of_this_sinks_dead_attempts_are_removed(tmp_path: Path) -> None:
    others = [
        start(text(tmp_path), job="another job"),
        start(text(tmp_path), task="another sink"),
        start(text(tmp_path), 1, 2),
        start(text(tmp_path), attempt=3),
    ]
    dead = [start(text(tmp_path)), start(text(tmp_path), attempt=1)]
    gone = [start(text(tmp_path), 5, 6), start(text(tmp_path), 2, 6, attempt=7)]
    for writer in (*others, *dead, *gone):
        writer.write(RowBatch(["x"]))
    (tmp_path / ".part-of-somebody.inprogress").write_text("")
    assert len(hidden(tmp_path)) == 9
    start(text(tmp_path), 0, 2, attempt=2).close()
    assert len(hidden(tmp_path)) == 5
    for writer in others:
        writer.finish()
        writer.commit(1)
    assert shown(tmp_path) == ["x"] * 4
    for writer in (*others, *dead, *gone):
        writer.close()


def test_a_job_reports_hidden_files_of_others_where_it_writes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost = start(text(tmp_path), job="a job that was lost", rows=["x"])
    start(text(tmp_path), 1, 2).close()
    start(text(tmp_path), attempt=1).close()
    assert not caplog.records
    start(text(tmp_path)).close()
    (line,) = caplog.messages
    assert line.startswith(f"{tmp_path} has 1 hidden files (.inprogress, .savepoint) of other jobs or sinks. They stay")
    lost.close()


@pytest.mark.parametrize("parallelism", [1, 2, 5])
@pytest.mark.parametrize("policy", POLICIES)
def test_another_parallelism_takes_everything_over_once(tmp_path: Path, policy: Any, parallelism: int) -> None:
    sink = text(tmp_path, policy)
    elements = []
    for subtask in range(3):
        writer = start(sink, subtask, 3, rows=[f"from-{subtask}"])
        elements += writer.checkpoint(1)
        writer.write(RowBatch(["lost"]))
        writer.close()
    writers = [
        start(text(tmp_path, policy), n, parallelism, attempt=1, restored=elements[n::parallelism], shown=elements)
        for n in range(parallelism)
    ]
    for number, writer in enumerate(writers):
        end(writer, f"to-{number}")
    expected = [f"from-{n}" for n in range(3)] + [f"to-{n}" for n in range(parallelism)]
    assert (shown(tmp_path), hidden(tmp_path)) == (expected, set())


def test_parts_that_meet_in_one_bucket_do_not_wait_for_checkpoints_that_never_come(tmp_path: Path) -> None:
    elements = []
    for subtask in range(2):
        elements += left_by(start(text(tmp_path), subtask, 2), f"from-{subtask}")
    writer = SinkHarness(text(tmp_path), job="another", restored=elements)
    assert shown(tmp_path) == ["from-0"]
    writer.end()
    assert shown(tmp_path) == ["from-0", "from-1"]


def test_a_savepoint_of_another_job_keeps_its_part(tmp_path: Path) -> None:
    held = left_by(start(text(tmp_path), job="first"), "a")
    for job in ("second", "third"):
        end(start(text(tmp_path), job=job, restored=held))
    assert shown(tmp_path) == ["a", "a"]


def test_parts_roll_by_time_while_no_records_come(tmp_path: Path) -> None:
    clock = ManualClock()
    sink = text(tmp_path, RollingPolicy.default_rolling_policy(inactivity_interval=3_000)).with_clock(clock)
    writer = SinkHarness(sink.with_bucket_check_interval(1_000))  # without checkpoints: visible when rolled
    writer.write(RowBatch(["a"]))
    due = writer.tick(clock.monotonic())
    for _ in range(3):
        assert due is not None
        assert shown(tmp_path) == []
        clock.advance(due - clock.monotonic())
        due = writer.tick(clock.monotonic())
    assert shown(tmp_path) == ["a"]
    writer.close()


def test_a_part_that_is_over_ends_with_the_checkpoint(tmp_path: Path) -> None:
    clock = ManualClock()
    writer = start(text(tmp_path).with_clock(clock), rows=["a"])
    clock.advance(61)
    writer.commit(1)
    assert (shown(tmp_path), hidden(tmp_path)) == (["a"], set())
    writer.close()


def test_a_savepoint_without_checkpoints_shows_everything_once(tmp_path: Path) -> None:
    writer = SinkHarness(text(tmp_path))
    writer.write(RowBatch(["a"]))
    writer.checkpoint(1)
    writer.write(RowBatch(["b"]))
    writer.end()
    assert (shown(tmp_path), hidden(tmp_path)) == (["a", "b"], set())


@pytest.mark.parametrize("with_links", [True, False])
def test_files_get_their_names_on_any_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_links: bool
) -> None:
    def no_links(source: str, target: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not with_links:
        monkeypatch.setattr(os, "link", no_links)
    writer = start(text(tmp_path), rows=["a"])
    writer.checkpoint(1)
    held = writer.checkpoint(2, savepoint=True)
    assert len(hidden(tmp_path)) == 2
    writer.commit(3)
    writer.close()
    start(text(tmp_path), attempt=1, restored=held).close()
    assert (shown(tmp_path), hidden(tmp_path)) == (["a"], set())


@pytest.mark.parametrize("policy", POLICIES)
def test_a_checkpoint_holds_only_what_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: Any) -> None:
    synced: list[int] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        sync(descriptor)
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", noted)
    by_letter = BucketAssigner.custom_bucket_assigner(lambda row: f"letter/{row}")
    writer = start(text(tmp_path, policy).with_bucket_assigner(by_letter), rows=["a"])
    before = len(synced)
    folders = [tmp_path, tmp_path / "letter"]
    assert {folder.stat().st_ino for folder in folders} <= set(synced)
    writer.checkpoint(1)
    (file,) = (tmp_path / "letter/a").iterdir()
    assert {file.stat().st_ino, file.parent.stat().st_ino} <= set(synced[before:])
    before = len(synced)
    writer.checkpoint(2)
    assert synced[before:] == []
    writer.write(RowBatch(["a"]))
    writer.checkpoint(3)
    assert synced[before:]
    before = len(synced)
    writer.finish()
    writer.commit(4)
    assert file.parent.stat().st_ino in synced[before:]
    writer.close()


def test_a_disk_that_fails_at_a_checkpoint_fails_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    writer = start(text(tmp_path), rows=["a"])
    with monkeypatch.context() as failing:
        failing.setattr(os, "fsync", full)
        with pytest.raises(ConnectorError, match=r"part-.*: No space left on device"):
            writer.checkpoint(1)
    with pytest.raises(ConnectorError, match="No space left on device"):  # who knows what is on the disk now
        writer.write(RowBatch(["b"]))
    writer.close()
    assert (shown(tmp_path), hidden(tmp_path)) == ([], set())
