"""REST endpoints that have snapshots taken: savepoints, stopping with a savepoint, and checkpoints."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace
from starlette.requests import Request

from millstream.core.errors import MillstreamError
from millstream.core.jobs.ids import JobId, stable_id
from millstream.core.messages.snapshots import SnapshotRequest, SnapshotRequestKind
from millstream.dispatcher.callers import Role
from millstream.dispatcher.lifecycle import JobEndedError, JobLifecycle
from millstream.dispatcher.operations import OperationKey, OperationKind, Outcome
from millstream.dispatcher.rest import snapshot_schemas as schemas
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.operations import RestOperations, failure_cause
from millstream.dispatcher.rest.requests import choice, flag, job_id_of, json_object, location, trigger_id_of
from millstream.dispatcher.rest.table import RestRoute


class SnapshotEndpoints:
    """Triggers snapshots, and returns their status and result."""

    def __init__(self, lifecycle: JobLifecycle, operations: RestOperations) -> None:
        self._lifecycle = lifecycle
        self._operations = operations

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        job = "/jobs/{jobid}"
        return [
            RestRoute(
                "POST", f"{job}/savepoints", self.savepoint, "Takes a savepoint, and cancels the job if requested.",
                schemas.TRIGGERED, status=202, body=schemas.SAVEPOINT_REQUEST, errors=(409,),
                outcome=f"{job}/savepoints/{{triggerid}}", needs=Role.OPERATE, action="savepoint",
            ),
            RestRoute(
                "GET", f"{job}/savepoints/{{triggerid}}", self.savepoint_status,
                "What became of a savepoint, or of a stop.", schemas.SAVEPOINT_STATUS,
            ),
            RestRoute(
                "POST", f"{job}/stop", self.stop, "Stops a job with a savepoint.", schemas.TRIGGERED, status=202,
                body=schemas.STOP_REQUEST, errors=(409,), outcome=f"{job}/savepoints/{{triggerid}}",
                needs=Role.OPERATE, action="stop",
            ),
            RestRoute(
                "POST", f"{job}/checkpoints", self.checkpoint, "Takes a checkpoint.", schemas.TRIGGERED, status=202,
                body=schemas.CHECKPOINT_REQUEST, errors=(409,), outcome=f"{job}/checkpoints/{{triggerid}}",
                needs=Role.OPERATE, action="checkpoint",
            ),
            RestRoute(
                "GET", f"{job}/checkpoints/{{triggerid}}", self.checkpoint_status, "What became of a checkpoint.",
                schemas.CHECKPOINT_STATUS,
            ),
        ]  # fmt: skip

    async def savepoint(self, request: Request) -> Json:
        """`POST /jobs/:jobid/savepoints`."""
        body = await json_object(request, schemas.SAVEPOINT_REQUEST)
        wanted = SnapshotRequest(
            job_id_of(request),
            kind=SnapshotRequestKind.SAVEPOINT,
            target_directory=location(body, "target-directory") or "",
            format=choice(body, "formatType", schemas.FORMATS),
        )
        take = self._take_and_cancel if flag(body, "cancel-job") else self._take
        return self._trigger(body, OperationKind.SAVEPOINT, wanted, take)

    async def stop(self, request: Request) -> Json:
        """`POST /jobs/:jobid/stop`."""
        body = await json_object(request, schemas.STOP_REQUEST)
        wanted = SnapshotRequest(
            job_id_of(request),
            kind=SnapshotRequestKind.STOP,
            target_directory=location(body, "targetDirectory") or "",
            drain=flag(body, "drain"),
            format=choice(body, "formatType", schemas.FORMATS),
        )
        return self._trigger(body, OperationKind.SAVEPOINT, wanted, self._take)

    async def checkpoint(self, request: Request) -> Json:
        """`POST /jobs/:jobid/checkpoints`."""
        body = await json_object(request, schemas.CHECKPOINT_REQUEST)
        full = choice(body, "checkpointType", schemas.CHECKPOINT_TYPES) == "FULL"
        wanted = SnapshotRequest(job_id_of(request), kind=SnapshotRequestKind.CHECKPOINT, full=full)
        return self._trigger(body, OperationKind.CHECKPOINT, wanted, self._take)

    async def savepoint_status(self, request: Request) -> Json:
        """`GET /jobs/:jobid/savepoints/:triggerid`."""
        return self._operations.shown(OperationKind.SAVEPOINT, job_id_of(request), request, _savepoint)

    async def checkpoint_status(self, request: Request) -> Json:
        """`GET /jobs/:jobid/checkpoints/:triggerid`."""
        return self._operations.shown(OperationKind.CHECKPOINT, job_id_of(request), request, _checkpoint)

    def _trigger(
        self,
        body: Json,
        kind: OperationKind,
        wanted: SnapshotRequest,
        take: Callable[[SnapshotRequest], Awaitable[Outcome]],
    ) -> Json:
        job_id, trigger_id = wanted.job_id, trigger_id_of(body)
        key = OperationKey(kind, job_id, trigger_id)
        if not self._operations.knows(key):
            self._check_running(job_id)
            unique = stable_id(kind.value, job_id, trigger_id)  # clients may use one for several jobs
            self._operations.start(key, lambda: take(replace(wanted, trigger_id=unique)))
        return {"request-id": trigger_id}

    def _check_running(self, job_id: JobId) -> None:
        status = self._lifecycle.details(job_id).state
        if status.is_terminal:
            raise JobEndedError(f"no snapshot can be taken of job {job_id}: it is already {status}")

    async def _take(self, wanted: SnapshotRequest) -> Outcome:
        result = await self._lifecycle.trigger_snapshot(wanted)
        return Outcome(result.error, result.location, result.checkpoint_id)

    async def _take_and_cancel(self, wanted: SnapshotRequest) -> Outcome:
        outcome = await self._take(wanted)
        if outcome.failure:
            return outcome
        try:
            await self._lifecycle.cancel(wanted.job_id)
        except MillstreamError as error:
            return Outcome(f"the savepoint is at {outcome.location}, but {error}")
        return outcome


def _savepoint(outcome: Outcome) -> Json:
    return {"failure-cause": failure_cause(outcome)} if outcome.failure else {"location": outcome.location}


def _checkpoint(outcome: Outcome) -> Json:
    return {"failureCause": failure_cause(outcome)} if outcome.failure else {"checkpointId": outcome.checkpoint_id}
