"""REST endpoints of cluster data sets, as Flink has them: there never are any.

What a program caches with `DataStream.cache()` is in files, which are the program's and not the cluster's.
"""

from __future__ import annotations

from starlette.requests import Request

from millstream.dispatcher.callers import Role
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.schemas import BOOLEAN, ID, array, record
from millstream.dispatcher.rest.snapshot_schemas import DISPOSAL_STATUS, TRIGGERED
from millstream.dispatcher.rest.table import RestError, RestRoute

DATA_SETS = record({"dataSets": array(record({"id": ID, "isComplete": BOOLEAN}))})


class DataSetEndpoints:
    """Shows that there are none."""

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        return [
            RestRoute("GET", "/datasets", self.all, "Cluster data sets: none.", DATA_SETS),
            RestRoute(
                "GET", "/datasets/delete/{triggerid}", self.deletion, "What became of a deletion: there is none.",
                DISPOSAL_STATUS,
            ),
            RestRoute(
                "DELETE", "/datasets/{datasetid}", self.delete, "Deletes a cluster data set: there is none.", TRIGGERED,
                status=202, needs=Role.OPERATE, action="delete data set",
            ),
        ]  # fmt: skip

    async def all(self, request: Request) -> Json:
        """`GET /datasets`."""
        return {"dataSets": []}

    async def deletion(self, request: Request) -> Json:
        """`GET /datasets/delete/:triggerid`."""
        raise RestError(404, f"no deletion of a data set has the trigger id {request.path_params['triggerid'][:100]}")

    async def delete(self, request: Request) -> Json:
        """`DELETE /datasets/:datasetid`."""
        wanted = request.path_params["datasetid"][:100]
        raise RestError(404, f"there is no data set {wanted}: what a program caches is in files of its own")
