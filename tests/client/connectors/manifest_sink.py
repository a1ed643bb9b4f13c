"""A sink with one committer: parts are written by all subtasks, and a manifest lists those of each checkpoint.

Readers read the parts that manifests list. Programs that run on clusters get this file.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from pathlib import Path
from typing import Any

from millstream.core.records.batches import Batch
from millstream.datastream import RuntimeContext
from millstream.datastream.connectors.global_commit import (
    CommittingWriter,
    GlobalCommit,
    GlobalCommitSink,
    GlobalCommitter,
)


class ManifestSink(GlobalCommitSink[str]):
    """A commit takes `seconds`, after which it has its effect."""

    def __init__(self, path: str, seconds: float = 0) -> None:
        self.path = path
        self.seconds = seconds

    def create_writer(self, context: RuntimeContext) -> CommittingWriter[str]:
        os.makedirs(f"{self.path}/parts", exist_ok=True)
        return PartWriter(self.path, context.get_index_of_this_subtask())

    def create_committer(self, context: RuntimeContext) -> GlobalCommitter[str]:
        os.makedirs(f"{self.path}/manifests", exist_ok=True)
        return ManifestCommitter(self.path, self.seconds)


class PartWriter(CommittingWriter[str]):
    def __init__(self, path: str, subtask: int) -> None:
        self.path = path
        self.subtask = subtask
        self.lines: list[str] = []

    def write(self, batch: Batch) -> None:
        self.lines += [json.dumps(record) + "\n" for record in batch.records()]

    def prepare_commit(self) -> list[str]:
        lines, self.lines = self.lines, []
        if not lines:
            return []
        name = f"{self.subtask}-{uuid.uuid4().hex}"
        with open(f"{self.path}/parts/{name}", "w") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        return [name]


class ManifestCommitter(GlobalCommitter[str]):
    def __init__(self, path: str, seconds: float) -> None:
        self.path = path
        self.seconds = seconds

    def commit(self, commit: GlobalCommit[str]) -> None:
        manifest = f"{self.path}/manifests/{commit.id}.json"  # the same name when it is repeated
        with open(f"{manifest}.tmp", "w") as file:
            json.dump({"checkpoint": commit.checkpoint_id, "parts": commit.committables}, file)
            file.flush()
            os.fsync(file.fileno())
        time.sleep(self.seconds)
        os.replace(f"{manifest}.tmp", manifest)


def manifests(path: Path) -> list[Any]:
    """In the order of their checkpoints."""
    found = [json.loads(file.read_text()) for file in (path / "manifests").glob("*.json")]
    return sorted(found, key=lambda manifest: manifest["checkpoint"] or 0)


def visible(path: Path) -> list[Any]:
    """All records of the parts that manifests list, those of one part after another."""
    parts = [part for manifest in manifests(path) for part in manifest["parts"]]
    return [json.loads(line) for part in parts for line in (path / "parts" / part).read_text().splitlines()]
