"""Whether a savepoint is whole, and whether a job can start from it: the result of `millstream run --dry-run`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from millstream.core.snapshot.inspection.verify import verify_snapshot
from millstream.core.snapshot.metadata.model import SnapshotMetadata
from millstream.core.snapshot.storage.file_storage import storage_at
from millstream.spark.errors import SavepointWriteError


def validate_savepoint(path: str, *, job: str | None = None, job_arguments: Sequence[str] = ()) -> SnapshotMetadata:
    """Reads all of a savepoint as a restore would, in this process; with a job, compares it with that as well."""
    storage, location = storage_at(str(path))
    metadata = verify_snapshot(storage, location)
    if job is not None:
        check_against_job(str(path), job, job_arguments)
    return metadata


def check_against_job(path: str, job: str, arguments: Sequence[str] = ()) -> dict[str, Any]:
    """Has the command line compare a savepoint with a job (a wheel or a program), in a process of its own."""
    command = [sys.executable, "-m", "millstream.cli.main", "run", "--dry-run", "--json", "-s", path, job, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        detail = done.stderr.strip().rpartition("\n")[2] or f"it ended with status {done.returncode}"
        raise SavepointWriteError(f"{path}: cannot be compared with {job}: {detail}") from None
    if not report["restorable"]:
        problems = "; ".join([*report["problems"], *report["unknown"]])
        raise SavepointWriteError(f"{path}: the job {job} cannot start from it: {problems}")
    return report
