"""Local copies of state files: written together with the files, deleted when unreferenced, used if valid."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from checkpoint_rig import COUNTED, CheckpointRig, PositionedSource, counted
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace
from pyarrow import fs
from thoroughness import cases
from worker_rig import chain, writing, written

from millstream.core.jobs.ids import JobId, VertexId
from millstream.core.jobs.plan import plan
from millstream.core.messages.checkpoints import CheckpointAck
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.snapshot import FileSystemStorage, SnapshotError, StateFile
from millstream.taskmanager.worker.checkpointing.local_copies import LocalCopies

LOCATION = "file:///storage/job/chk-1"


class Remote:
    """A storage on a local folder, to which a test can write the files of one checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.storage = FileSystemStorage(str(folder / "storage"), JobId("job"))
        self.copies = LocalCopies(folder / "copies")
        self.folder = folder / "copies"

    def write(self, checkpoint: int, content: bytes, part: int = 0, shared: bool = False, inline: int = 0) -> StateFile:
        location = self.storage.checkpoint_location(checkpoint)
        target = self.copies.copying(self.storage, checkpoint)
        writer = target.create_writer(location, "op", "s", 0, "arrow", part=part, shared=shared, inline_below=inline)
        for byte in content:
            writer.write(bytes([byte]))
        done = writer.commit()
        return StateFile(done.path, 0, None, None, 0, done.size, done.checksum, done.inline)

    def written(self, checkpoint: int, *files: StateFile) -> None:
        self.copies.written(checkpoint, self.storage.checkpoint_location(checkpoint), files)

    def content(self, checkpoint: int, file: StateFile) -> bytes | None:
        location = self.storage.checkpoint_location(checkpoint)
        if not self.copies.has(location, file):
            return None
        return bytes(self.copies.read_file(location, file.path))

    def count(self) -> int:
        return len(list(self.folder.iterdir())) if self.folder.exists() else 0


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote(tmp_path)


def test_a_file_and_its_copy_are_the_same(remote: Remote) -> None:
    file = remote.write(1, b"content")
    assert remote.content(1, file) == b"content"
    assert bytes(remote.storage.read_file(remote.storage.checkpoint_location(1), file.path)) == b"content"
    assert remote.content(2, file) is None


def test_inline_content_has_no_copy(remote: Remote) -> None:
    file = remote.write(1, b"content", inline=100)
    assert file.inline == b"content"
    assert (remote.content(1, file), remote.count()) == (None, 0)


def test_an_aborted_file_has_no_copy(remote: Remote) -> None:
    target = remote.copies.copying(remote.storage, 1)
    writer = target.create_writer(LOCATION, "op", "s", 0, "arrow")
    writer.write(b"half")
    writer.abort()
    assert remote.count() == 0


def test_a_notification_of_a_snapshot_without_copies_changes_nothing(remote: Remote) -> None:
    first = remote.write(1, b"first")
    remote.written(1, first)
    remote.copies.completed(1)
    remote.copies.completed(2)  # a savepoint, which is not copied
    remote.copies.given_up(3)
    assert remote.content(1, first) == b"first"


def test_without_a_restore_old_copies_are_deleted_with_the_first_checkpoint(remote: Remote) -> None:
    remote.write(1, b"left")
    remote.copies = LocalCopies(remote.folder)
    remote.write(2, b"new")
    assert remote.count() == 1


def test_a_copy_that_cannot_be_created_is_harmless(remote: Remote, caplog: pytest.LogCaptureFixture) -> None:
    remote.folder.write_text("no folder can be here")
    location = remote.storage.checkpoint_location(1)
    target = remote.copies.copying(remote.storage, 1)
    paths = []
    for part in range(3):
        writer = target.create_writer(location, "op", "s", 0, "arrow", part=part)
        writer.write(b"content")
        paths.append(writer.commit().path)
    assert [bytes(remote.storage.read_file(location, path)) for path in paths] == [b"content"] * 3
    assert caplog.text.count("checkpoint 1 is written without further local copies") == 1


def test_a_copy_that_fails_while_it_is_written_is_dropped(remote: Remote, caplog: pytest.LogCaptureFixture) -> None:
    remote.folder.mkdir()
    location = remote.storage.checkpoint_location(1)
    full = remote.copies.create(1, location, "op/s/part-0-0.arrow")
    full.symlink_to("/dev/full")  # can be opened, and every write that reaches it fails: no space is left
    content = bytes(1 << 20)
    writer = remote.copies.copying(remote.storage, 1).create_writer(location, "op", "s", 0, "arrow")
    assert [writer.write(content), writer.write(content)] == [len(content)] * 2
    file = writer.commit()
    assert bytes(remote.storage.read_file(location, file.path)) == content * 2
    assert remote.count() == 0
    assert caplog.text.count("No space left") == 1


def test_a_missing_copy_is_an_error_that_names_it(remote: Remote) -> None:
    with pytest.raises(SnapshotError, match=r"copies/[0-9a-f]{64}: cannot be read"):
        remote.copies.read_file(LOCATION, "op/s/part-0-0.arrow")


# Any order of notifications


class CopyModel(RuleBasedStateMachine):
    """The copies on the disk are those that the last completed checkpoint and those in progress refer to."""

    folder: Path

    def __init__(self) -> None:
        super().__init__()
        self.remote: Remote
        self.next_id = 1
        self.completed: tuple[int, frozenset[str]] | None = None
        self.pending: dict[int, frozenset[str]] = {}
        self.files: dict[str, tuple[int, StateFile]] = {}

    @initialize()
    def begin(self) -> None:
        number = len(list(self.folder.iterdir()))
        self.remote = Remote(self.folder / str(number))

    @rule(new=st.integers(0, 3), kept=st.integers(0, 3))
    def checkpoint(self, new: int, kept: int) -> None:
        number, self.next_id = self.next_id, self.next_id + 1
        base = sorted(self.completed[1]) if self.completed else []
        names = {*base[:kept]}
        for part in range(new):
            file = self.remote.write(number, b"%d" % part, part, shared=True)
            self.files[file.path] = (number, file)
            names.add(file.path)
        self.remote.written(number, *(self.files[name][1] for name in names))
        self.pending[number] = frozenset(names)

    @rule(chosen=st.randoms(use_true_random=False))
    def complete(self, chosen: Any) -> None:
        if self.pending:
            number = chosen.choice(sorted(self.pending))
            self.remote.copies.completed(number)
            self.completed = (number, self.pending[number])
            self.pending = {n: names for n, names in self.pending.items() if n > number}

    @rule(chosen=st.randoms(use_true_random=False))
    def give_up(self, chosen: Any) -> None:
        if self.pending:
            number = chosen.choice(sorted(self.pending))
            self.remote.copies.given_up(number)
            del self.pending[number]

    @rule()
    def restart(self) -> None:
        """The worker was killed: only the completed checkpoint is left."""
        self.remote.copies = LocalCopies(self.remote.folder)
        self.pending.clear()
        if self.completed is not None:
            number, names = self.completed
            location = self.remote.storage.checkpoint_location(number)
            self.remote.copies.restored(number, location, [self.files[name][1] for name in names])

    @invariant()
    def exactly_what_is_referred_to_is_there(self) -> None:
        named = frozenset().union(*self.pending.values(), self.completed[1] if self.completed else ())
        found = {name for name, (number, file) in self.files.items() if self.remote.content(number, file) is not None}
        assert named <= found
        if self.completed is not None:
            assert named == found


def test_copies_are_those_that_are_referred_to(tmp_path: Path) -> None:
    class Model(CopyModel):
        folder = tmp_path

    case: Any = Model.TestCase
    case.settings = settings(max_examples=cases(60), stateful_step_count=25)
    case("runTest").runTest()


# In a worker

WORDS = [hashlib.sha256(b"%d" % (n % 1500)).hexdigest() for n in range(3000)]  # too long to stay inline
LOCAL = {"execution.state-recovery.from-local": "true"}


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[..., CheckpointRig]]:
    rigs: list[CheckpointRig] = []

    def start(**options: str) -> CheckpointRig:
        rigs.append(CheckpointRig(tmp_path / "remote", local_state=str(tmp_path / "local"), **options))
        return rigs[-1]

    yield start
    for rig in rigs:
        rig.close()


def deploy(rig: CheckpointRig, name: str, restore: bytes = b"") -> TaskDeployment:
    specs = (plan.SourceSpec(PositionedSource(50)), COUNTED, writing(name))
    task = replace(rig.subtask(chain(*specs), restore=restore), vertex_id=VertexId("counting"))
    rig.deploy(task)
    return task


def copies(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "local" / "counting-0").glob("*"))


def checkpointed(rig: CheckpointRig) -> tuple[CheckpointAck, list[Any]]:
    """A completed checkpoint after half of the words, and what was written before it."""
    task = deploy(rig, "before")
    rig.feed(task, WORDS)
    rig.turn_until(lambda: len(written("before")) >= len(WORDS) // 2)
    rig.trigger(1, task)
    before = written("before")
    (ack,) = rig.acknowledged(1, task)
    rig.notice(1, True, task)
    rig.cancel(task.attempt_id)
    return ack, before


def finished(rig: CheckpointRig, ack: CheckpointAck, before: list[Any]) -> None:
    """Restored from the checkpoint, the task produces the result of an uninterrupted run."""
    task = deploy(rig, "after", ack.operators)
    assert rig.state(task) == "RUNNING", rig.failure(task).exception
    rig.feed(task, last=True)
    rig.turn_until(rig.ended(task))
    assert rig.state(task) == "FINISHED"
    assert Counter(before + written("after")) == counted(WORDS)


def test_a_task_is_restored_from_its_copies_alone(
    worker: Callable[..., CheckpointRig], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ack, before = checkpointed(worker())
    assert len(copies(tmp_path)) >= 2
    (tmp_path / "remote").rename(tmp_path / "away")
    with caplog.at_level("INFO"):
        finished(worker(**LOCAL), ack, before)
    assert f"read {len(copies(tmp_path))} state files from local copies, 0 from file://" in caplog.text


@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_an_incomplete_copy_is_replaced_by_the_storage(
    worker: Callable[..., CheckpointRig], tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    ack, before = checkpointed(worker())
    found = copies(tmp_path)
    content = found[0].read_bytes()
    match damage:
        case "cut":
            found[0].write_bytes(content[:-1])
        case "changed":
            found[0].write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
        case "gone":
            found[0].unlink()
    with caplog.at_level("INFO"):
        finished(worker(**LOCAL), ack, before)
    assert f"read {len(found) - 1} state files from local copies, 1 from file://" in caplog.text
    assert ("ignoring an invalid local copy" in caplog.text) == (damage != "gone")


def test_copies_are_only_read_if_configured(worker: Callable[..., CheckpointRig], tmp_path: Path) -> None:
    ack, _ = checkpointed(worker())
    (tmp_path / "remote").rename(tmp_path / "away")
    rig = worker()
    task = deploy(rig, "after", ack.operators)
    assert rig.state(task) == "FAILED"


def test_savepoints_are_not_copied(worker: Callable[..., CheckpointRig], tmp_path: Path) -> None:
    rig = worker()
    task = deploy(rig, "saved")
    rig.feed(task, WORDS)
    rig.turn_until(lambda: len(written("saved")) >= len(WORDS) // 2)
    rig.checkpoint(1, task, savepoint=True, location=f"{(tmp_path / 'savepoint').as_uri()}")
    rig.notice(1, True, task)
    assert copies(tmp_path) == []
    assert list((tmp_path / "savepoint").rglob("*.parquet"))


def test_notifications_bound_what_is_kept(worker: Callable[..., CheckpointRig], tmp_path: Path) -> None:
    rig = worker()
    task = deploy(rig, "bounded")
    rig.feed(task, WORDS * 5)
    for checkpoint in range(1, 6):
        rig.turns()
        before = set(copies(tmp_path))
        rig.checkpoint(checkpoint, task)
        new = set(copies(tmp_path)) - before
        assert new
        kept = before if checkpoint == 3 else new
        rig.notice(checkpoint, checkpoint != 3, task)
        rig.turn_until(lambda kept=kept: set(copies(tmp_path)) == kept)


@pytest.mark.parametrize("incremental", ["false", "true"])
def test_object_storage_is_copied_like_any_other(
    worker: Callable[..., CheckpointRig], s3_root: str, tmp_path: Path, caplog: pytest.LogCaptureFixture,
    incremental: str,
) -> None:  # fmt: skip
    """Locations have no credentials in them, and files that checkpoints share are named by their URIs."""
    directory = s3_root.format(path=f"copied-{incremental}")
    options = {"execution.checkpointing.dir": directory, "execution.checkpointing.incremental": incremental}

    def started(**more: str) -> CheckpointRig:
        rig = worker(**options, **more)
        rig.root = f"s3://bucket/copied-{incremental}/job"
        return rig

    ack, before = checkpointed(started())
    system, path = fs.FileSystem.from_uri(directory)
    selector = fs.FileSelector(path, recursive=True, allow_not_found=True)
    stored = [info.path for info in system.get_file_info(selector) if info.type is fs.FileType.File]
    assert len(copies(tmp_path)) == len(stored) >= 2
    assert any("/shared/" in name for name in stored) == (incremental == "true")
    kept, *lost = stored
    content = system.open_input_stream(kept).read()
    next(copy for copy in copies(tmp_path) if copy.read_bytes() == content).write_bytes(b"damaged")
    for name in lost:
        system.delete_file(name)
    with caplog.at_level("INFO"):
        finished(started(**LOCAL), ack, before)
    assert f"read {len(lost)} state files from local copies, 1 from s3://bucket/" in caplog.text
