"""A cluster with each member on a host of its own, on a ZooKeeper ensemble of three, and its users on another host.

Requests tolerate dispatchers that are dead, frozen or cut off: they are sent to the next one.
"""

from __future__ import annotations

import asyncio
import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from failover_system import ROLES, SESSION_TIMEOUT, FailoverCluster
from hosts import Hosts, network
from processes import processes_with
from waiting import wait_until
from zookeeper_ensemble import ZookeeperEnsemble, running_ensemble

from millstream.core.jobs.ids import NO_JOB, JobId
from millstream.core.store.store import Contest, StoreError

ENSEMBLE = ("zookeeper-1", "zookeeper-2", "zookeeper-3")
MEMBERS = ("dispatcher-1", "dispatcher-2", "resourcemanager-1", "resourcemanager-2", "jobmanager-1", "jobmanager-2",
           "taskmanager-1", "taskmanager-2", "taskmanager-3")  # fmt: skip
USERS = "users"
SLOTS = 6
_REST_PORT = 8081
_PATIENCE = 2 * SESSION_TIMEOUT
"""Seconds that one dispatcher has to respond: one that lost leadership knows it by then."""


class UnansweredError(AssertionError):
    """No dispatcher responded: the request may have been carried out or not."""


class HostedCluster(FailoverCluster):
    """Used on the users' host. Its members and the ensemble are named like their hosts."""

    def __init__(self, directory: Path, hosts: Hosts, ensemble: ZookeeperEnsemble) -> None:
        self.hosts = hosts
        self.ensemble = ensemble
        store = {
            "high-availability.type": "zookeeper",
            "high-availability.zookeeper.quorum": ensemble.quorum,
            "security.allow-insecure": "true",
            "task.cancellation.interval": "300 ms",
            "task.cancellation.timeout": "3 s",
        }
        super().__init__(directory, store)
        self._rest = {name: f"{hosts.address(name)}:{_REST_PORT}" for name in MEMBERS if name.startswith("dispatcher")}

    def start_everything(self) -> None:
        self.ensemble.wait_until_it_serves()
        for name in MEMBERS:
            self.start_member(name)
        wait_until(lambda: self.free_slots() == SLOTS, f"{SLOTS} slots to be there")

    def _prefix_of(self, name: str) -> list[str]:
        return self.hosts.within(name)

    def _options_of(self, name: str) -> dict[str, str]:
        kind, host = name.partition("-")[0], self.hosts.address(name)
        own = {
            "taskmanager.host" if kind == "taskmanager" else f"{kind}.rpc.address": host,
            "io.tmp.dirs": str(self.directory / "tmp" / name),  # a disk of its own
        }
        return {**own, **super()._options_of(name), **({"rest.bind-address": host} if kind == "dispatcher" else {})}

    def leader_now(self, kind: str, job_id: str = NO_JOB) -> str | None:
        """The name of the member that leads, as far as the store responds in time."""

        async def found() -> str | None:
            async with asyncio.timeout(_PATIENCE):
                known = await self._known(Contest(ROLES[kind], JobId(job_id)))
            return self._name_of(kind, known.address) if known is not None else None

        try:
            return asyncio.run(found())
        except (StoreError, TimeoutError):
            return None

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """Status and body of the first dispatcher that responds."""
        failures = []
        for address in self._rest.values():
            content = json.dumps(body or {}).encode() if method != "GET" else None
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"http://{address}{path}", content, headers, method=method)
            try:
                with urllib.request.urlopen(request, timeout=_PATIENCE) as response:
                    return response.status, json.load(response)
            except urllib.error.HTTPError as error:
                if error.code not in (503, 504):
                    return error.code, json.load(error)
                failures.append(f"{address}: {error.read()!r}")
            except (OSError, json.JSONDecodeError) as error:
                failures.append(f"{address}: {error!r}")
        raise UnansweredError(f"{method} {path}: {failures}")

    def get(self, path: str) -> Any:
        """Retries until there is a response, as a user does."""

        def response() -> tuple[Any] | None:
            try:
                status, found = self.request("GET", path)
            except UnansweredError:
                return None
            if status != 200:
                raise AssertionError(f"{path}: {status} {found}")
            return (found,)

        (result,) = wait_until(response, f"a response to {path}")
        return result

    def log_tails(self) -> str:
        return f"{super().log_tails()}\n{self.ensemble.log_tails()}\n{self._jobs()}"

    def _jobs(self) -> str:
        """The states of all jobs, and their errors."""
        try:
            _, overview = self.request("GET", "/jobs/overview")
            found = [(job, self.request("GET", f"/jobs/{job['jid']}/exceptions")) for job in overview["jobs"]]
        except (UnansweredError, KeyError) as error:
            return f"== jobs: {error!r}"
        return "\n".join(f"== {job['name']} {job['jid']} {job['state']}\n{str(why)[-1500:]}" for job, why in found)


@contextmanager
def hosted_cluster(directory: Path) -> Iterator[HostedCluster]:
    """Everything runs, and this thread is on the users' host. Nothing is left, whatever happens."""
    with network(*ENSEMBLE, *MEMBERS, USERS) as hosts, hosts.entered(USERS):
        reached = ",".join(hosts.address(name) for name in MEMBERS)
        before = os.environ.get("no_proxy", "")
        os.environ["no_proxy"] = f"{before},{reached}"
        try:
            (directory / "ensemble").mkdir(parents=True)
            with running_ensemble(directory / "ensemble", hosts, ENSEMBLE) as ensemble:
                cluster = HostedCluster(directory / "cluster", hosts, ensemble)
                try:
                    cluster.start_everything()
                    yield cluster
                except BaseException:
                    print(cluster.log_tails())
                    raise
                finally:
                    cluster.stop()
        finally:
            os.environ["no_proxy"] = before
    wait_until(lambda: not processes_with(str(directory)), "every process of the cluster to be gone")
