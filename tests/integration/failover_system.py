"""Several of each service as separate processes on one store, started directly as a user would."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from ports import free_port
from processes import is_alive, processes_with
from system import Cluster, given
from waiting import wait_until

from millstream.core.jobs.ids import NO_JOB, JobId
from millstream.core.services.leader_lookup import KnownLeader, Role, address_options
from millstream.core.settings.configuration import Configuration
from millstream.core.store.directory.lock_files import is_locked
from millstream.core.store.high_availability import open_store
from millstream.core.store.store import Contest

SESSION_TIMEOUT = 4.0
_WRITE_OF_OTHERS = 2.0
ROLES = {"dispatcher": Role.DISPATCHER, "resourcemanager": Role.RESOURCE_MANAGER, "jobmanager": Role.JOB_MANAGER}


class FailoverCluster(Cluster):
    """Members are named like `jobmanager-2`. A member that a test killed can be started again under its name."""

    def __init__(self, directory: Path, store: dict[str, str]) -> None:
        super().__init__(directory)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._rest = {f"dispatcher-{n}": f"127.0.0.1:{free_port()}" for n in (1, 2)}
        for folder in ("conf", "log"):
            (directory / folder).mkdir(mode=0o700, parents=True)
        self.options = {
            "high-availability.storageDir": str(directory / "ha"),
            "high-availability.zookeeper.client.session-timeout": f"{SESSION_TIMEOUT:g} s",
            "io.tmp.dirs": str(directory / "tmp"),
            "heartbeat.interval": "500 ms",
            "heartbeat.timeout": "10 s",
            "metrics.fetcher.update-interval": "200 ms",
            "taskmanager.numberOfTaskSlots": "2",
            **{f"{service}.rpc.port": "0" for service in (*ROLES, "taskmanager")},
            **store,
        }
        (directory / "conf" / "config.yaml").write_text(yaml.safe_dump(self.options))

    def start_all(self, job_managers: int = 2, task_managers: int = 2) -> None:
        for n in (1, 2):
            self.start_member(f"dispatcher-{n}")
            self.start_member(f"resourcemanager-{n}")
        for n in range(1, job_managers + 1):
            self.start_member(f"jobmanager-{n}")
        for n in range(1, task_managers + 1):
            self.start_member(f"taskmanager-{n}")
        slots = 2 * task_managers
        wait_until(lambda: self.get("/overview")["slots-total"] == slots, f"{slots} slots to be there")

    def start_member(self, name: str) -> None:
        kind = name.partition("-")[0]
        service = [sys.executable, "-m", "millstream.cli.main", kind, "--configDir", str(self.directory / "conf")]
        options = given(*(f"{key}={value}" for key, value in self._options_of(name).items()))
        command = [*self._prefix_of(name), *service, *options]
        member = {**os.environ, "MILLSTREAM_CLUSTER_MEMBER": str(self.directory)}
        with self._log_of(name).open("ab") as log:
            started = subprocess.Popen(command, env=member, stdout=log, stderr=log, start_new_session=True)
        self._processes[name] = started
        self._choose_rest()

    def _options_of(self, name: str) -> dict[str, str]:
        """The options of one member, in addition to those of all."""
        return address_options(Role.REST, self._rest[name]) if name in self._rest else {}

    def _prefix_of(self, name: str) -> list[str]:
        """The prefix of a member's command."""
        return []

    def _log_of(self, name: str) -> Path:
        return self.directory / "log" / f"{name}.log"

    def _choose_rest(self) -> None:
        """Selects any dispatcher that is running."""
        living = [address for name, address in self._rest.items() if self.lives(name)]
        if living:
            self.rest = living[0]

    def lives(self, name: str) -> bool:
        process = self._processes.get(name)
        return process is not None and process.poll() is None

    def get(self, path: str) -> Any:
        """Reads like a client that retries while there is no leader."""

        def response() -> tuple[Any] | None:
            self._choose_rest()
            try:
                return (super(FailoverCluster, self).get(path),)
            except urllib.error.HTTPError as error:
                if error.code != 503:
                    raise
                return None
            except OSError:
                return None

        (result,) = wait_until(response, f"a response to {path}")
        return result

    def kill_member(self, name: str) -> None:
        self._processes[name].kill()
        self._processes[name].wait()
        self._choose_rest()

    def kill_everything(self) -> None:
        """Kills everything, as when the host goes down."""
        for pid in self._members():
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        for process in self._processes.values():
            process.wait()
        wait_until(lambda: not self._members(), "every process to be gone")

    def freeze_member(self, name: str) -> None:
        """Not in the middle of a write to a directory: it would hold the lock, and all others would wait for it."""
        (lock,) = [*self.directory.glob("ha/*/store/lock")] or [None]

        def frozen() -> bool:
            os.kill(self.pid_of(name), signal.SIGSTOP)
            begin = time.monotonic()
            while lock is not None and is_locked(lock):
                if time.monotonic() > begin + _WRITE_OF_OTHERS:
                    os.kill(self.pid_of(name), signal.SIGCONT)
                    return False
            return True

        wait_until(frozen, f"{name} to be frozen outside of the store")

    def pid_of(self, name: str) -> int:
        return self._processes[name].pid

    def leader(self, kind: str, job_id: str = NO_JOB) -> str:
        """The name of the member that leads, once there is one."""
        contest = Contest(ROLES[kind], JobId(job_id))

        def found() -> str | None:
            known = asyncio.run(self._known(contest))
            return self._name_of(kind, known.address) if known is not None else None

        return str(wait_until(found, f"a leader of {contest}"))

    async def _known(self, contest: Contest) -> KnownLeader | None:
        store = open_store(Configuration(self.options))
        try:
            await store.connected()
            return await store.leader(contest)
        finally:
            await store.close()

    def _name_of(self, kind: str, address: str) -> str | None:
        for name in self._processes:
            addresses = re.findall(r" is up at (\S+)", self._log_of(name).read_text(errors="replace"))
            if name.startswith(kind) and self.lives(name) and addresses[-1:] == [address]:
                return name
        return None

    def stop(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in self._members():
            os.kill(pid, signal.SIGKILL)

    def logs(self) -> str:
        return "".join(file.read_text(errors="replace") for file in (self.directory / "log").iterdir())

    def log_tails(self) -> str:
        """The ends of all logs, for a test that failed."""
        logs = {name: self._log_of(name).read_text(errors="replace") for name in self._processes}
        return "\n".join(f"== {name}\n{log[-3000:]}" for name, log in logs.items())


@contextmanager
def failover_cluster(directory: Path, store: dict[str, str]) -> Iterator[FailoverCluster]:
    """Nothing of it is left, whatever happens."""
    cluster = FailoverCluster(directory, store)
    try:
        yield cluster
    except BaseException:
        print(cluster.log_tails())
        raise
    finally:
        cluster.stop()
    wait_until(lambda: not processes_with(str(directory)), "every process of the cluster to be gone")
