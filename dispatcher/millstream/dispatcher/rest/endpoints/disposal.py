"""REST endpoints that delete savepoints, by their path."""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from millstream.core.snapshot import SnapshotError, SnapshotKind, SnapshotMetadata, storage_at
from millstream.dispatcher.callers import Role
from millstream.dispatcher.claims import claimant
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.operations import OperationKey, OperationKind, Outcome
from millstream.dispatcher.rest import snapshot_schemas as schemas
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.operations import RestOperations, failure_cause
from millstream.dispatcher.rest.requests import json_object, location, trigger_id_of
from millstream.dispatcher.rest.table import RestError, RestRoute


class DisposalEndpoints:
    """Deletes snapshots that no job of this cluster needs."""

    def __init__(self, lifecycle: JobLifecycle, operations: RestOperations) -> None:
        self._lifecycle = lifecycle
        self._operations = operations

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        return [
            RestRoute(
                "POST", "/savepoint-disposal", self.dispose, "Deletes a savepoint.", schemas.TRIGGERED,
                body=schemas.DISPOSAL_REQUEST, outcome="/savepoint-disposal/{triggerid}",
                needs=Role.OPERATE, action="delete savepoint",
            ),
            RestRoute(
                "GET", "/savepoint-disposal/{triggerid}", self.status, "What became of a deletion.",
                schemas.DISPOSAL_STATUS,
            ),
        ]  # fmt: skip

    async def dispose(self, request: Request) -> Json:
        """`POST /savepoint-disposal`."""
        body = await json_object(request, schemas.DISPOSAL_REQUEST)
        path = location(body, "savepoint-path")
        if not path:
            raise RestError(400, "savepoint-path: expected the path of a savepoint")
        key = OperationKey(OperationKind.DISPOSAL, "", trigger_id_of(body))
        if not self._operations.knows(key):
            self._operations.start(key, lambda: self._dispose(path))
        return {"request-id": key.trigger_id}

    async def status(self, request: Request) -> Json:
        """`GET /savepoint-disposal/:triggerid`."""
        return self._operations.shown(OperationKind.DISPOSAL, "", request, _disposal)

    async def _dispose(self, path: str) -> Outcome:
        storage, location = storage_at(path)
        metadata = await asyncio.to_thread(storage.read_metadata, location)
        if (owner := claimant(location, self._lifecycle.all())) is not None:
            raise SnapshotError(location, f"was claimed by job {owner.job_id}, which is {owner.state} and deletes it")
        if metadata.kind is SnapshotKind.CHECKPOINT:
            self._check_unused(location, metadata)
        await asyncio.to_thread(storage.delete_snapshot, location)
        return Outcome()

    def _check_unused(self, location: str, metadata: SnapshotMetadata) -> None:
        job_id = metadata.job_id
        if self._lifecycle.knows(job_id):
            status = self._lifecycle.details(job_id).state
            if not status.is_terminal:
                raise SnapshotError(location, f"is a checkpoint of job {job_id}, which is {status} and may need it")
        if metadata.shared_files():
            raise SnapshotError(
                location, f"is a checkpoint whose files others of job {job_id} may share: only savepoints are deleted"
            )


def _disposal(outcome: Outcome) -> Json:
    return {"failure-cause": failure_cause(outcome)} if outcome.failure else {}
