"""The commands in deploy/, run unchanged on this host: the processes work together and respond to probes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy_files import (
    COMPOSE,
    Command,
    compose,
    compose_commands,
    kubernetes_commands,
    kubernetes_configuration,
    unit_commands,
)
from ports import free_port, free_ports
from processes import fresh_environment, kill_those_with
from waiting import DEADLINE, wait_until
from wheels import write_wheel
from zookeeper_process import running_zookeeper, why_not

from millstream.core.settings.configuration import Configuration

pytestmark = pytest.mark.process

BIN = Path(sys.executable).parent
ON_ONE_HOST = {"high-availability.type": "file"}
"""In place of ZooKeeper."""
PROGRAM = """
import os, time
from pathlib import Path
from millstream.datastream import StreamExecutionEnvironment

def main(arguments):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1, 2, 3]).map(lambda x: x + 1).print()
    while not Path(os.environ["GO"]).exists():
        time.sleep(0.02)
    env.execute("wordcount")
"""


class Host:
    """This host in place of all: each process has the configuration of the sample, with ports of its own."""

    def __init__(self, folder: Path, options: Mapping[str, Any], names: tuple[str, ...]) -> None:
        self.folder = folder
        self.go = folder / "go"
        self.rest: list[int] = []
        self._names = names
        self._options = {key: self._here(value) for key, value in options.items()}
        self._is_found = "high-availability.type" in options  # by those who look for it, whatever its ports are
        self._ports = free_ports()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._health: dict[str, int] = {}
        (folder / "bin").mkdir()
        (folder / "bin" / "hostname").write_text("#!/bin/sh\necho 127.0.0.1\n")
        (folder / "bin" / "hostname").chmod(0o700)

    def _here(self, value: Any) -> Any:
        """An option of the sample, for this host."""
        if not isinstance(value, str):
            return value
        for path in ("/var/lib/millstream", "/state", "/opt/application"):
            value = value.replace(path, str(self.folder / path.rpartition("/")[2]))
        return "127.0.0.1" if value in (*self._names, "0.0.0.0") else value

    def _word(self, word: str) -> str:
        """A word of a command: `key=value`, or any other."""
        key, equals, value = word.partition("=")
        return key + equals + self._here(value) if equals and " " not in key else self._path(word)

    def _path(self, word: str) -> str:
        found: str = self._here(word) if word.startswith("/") else word
        return found

    def start(self, command: Command) -> subprocess.Popen[bytes]:
        conf = self.folder / "conf" / command.name
        conf.mkdir(parents=True)
        self._health[command.name] = free_port()
        ports = free_ports() if self._is_found else self._ports
        options = {**self._options, **ports, "health.port": self._health[command.name]}
        self.rest += [ports["rest.port"]] if command.role in ("dispatcher", "standalone-job") else []
        (conf / "config.yaml").write_text(yaml.safe_dump(options))
        words = [self._word(word) for word in command.words]
        variables = fresh_environment(
            MILLSTREAM_CONF_DIR=str(conf), PATH=f"{self.folder / 'bin'}:{BIN}:{os.environ['PATH']}", GO=str(self.go)
        )
        whole = words if command.by_shell else [str(BIN / "millstream"), *words]
        with (self.folder / f"{command.name}.log").open("wb") as log:
            process = subprocess.Popen(whole, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._processes[command.name] = process
        return process

    def wait_until_probed(self, command: Command, *more: str) -> None:
        for path in dict.fromkeys((*command.probes, *more)):
            wait_until(lambda path=path: self._probe(command.name, path), f"{path} of {command.name}")

    def _probe(self, name: str, path: str) -> bool:
        assert self._processes[name].poll() is None, (self.folder / f"{name}.log").read_text()
        return self.get(f"http://127.0.0.1:{self._health[name]}{path}") is not None

    def get(self, url: str) -> bytes | None:
        with contextlib.suppress(urllib.error.URLError), urllib.request.urlopen(url, timeout=DEADLINE) as response:
            found: bytes = response.read()
            return found
        return None

    def task_managers(self) -> list[int]:
        """How many each dispatcher shows."""
        shown = [json.loads(self.get(f"http://127.0.0.1:{port}/overview") or b"{}") for port in self.rest]
        return [int(overview.get("taskmanagers", 0)) for overview in shown]

    def healthcheck(self, name: str) -> int:
        """Runs that of the compose file."""
        kind, program, *words = compose()["services"][name]["healthcheck"]["test"]
        assert (kind, program) == ("CMD", "python")
        found = [word.replace(":8080/", f":{self._health[name]}/") for word in words]
        return subprocess.run([sys.executable, *found], check=False, timeout=DEADLINE).returncode

    def stop(self) -> None:
        """All of them, as their supervisors would; each ends by itself, and in order."""
        for name, process in self._processes.items():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                assert process.wait(DEADLINE) == 0, (self.folder / f"{name}.log").read_text()


@contextlib.contextmanager
def host(folder: Path, options: Mapping[str, Any], names: tuple[str, ...] = ()) -> Iterator[Host]:
    try:
        yield Host(folder, options, names)
    finally:
        kill_those_with(str(folder))


def one_of_each(commands: Mapping[str, Command]) -> list[Command]:
    found: dict[str, Command] = {}
    for command in commands.values():
        if command.role != "standalone-job":
            found.setdefault(command.role, command)
    return list(found.values())


def run_session(here: Host, commands: list[Command]) -> None:
    for command in commands:
        here.start(command)
    for command in commands:
        here.wait_until_probed(command, "/readyz")
    wait_until(lambda: set(here.task_managers()) == {1}, "the task manager to be registered")


def test_the_session_of_kubernetes_runs(tmp_path: Path) -> None:
    options = kubernetes_configuration("session") | ON_ONE_HOST
    with host(tmp_path, options) as here:
        commands = one_of_each(kubernetes_commands("session"))
        assert all(command.probes == ("/healthz", "/readyz") for command in commands)
        run_session(here, commands)
        here.stop()


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_the_services_of_the_compose_file_run_on_zookeeper_and_are_healthy(tmp_path: Path) -> None:
    options = Configuration.from_yaml(COMPOSE.parent / "config.yaml").to_dict()
    commands = list(compose_commands().values())
    assert [command.role for command in commands].count("dispatcher") == 2
    with running_zookeeper() as zookeeper:
        found = {"high-availability.zookeeper.quorum": f"127.0.0.1:{zookeeper.port}"}
        with host(tmp_path, options | found, tuple(compose()["services"])) as here:
            run_session(here, commands)
            assert [here.healthcheck(command.name) for command in commands] == [0] * len(commands)
            here.stop()
            assert here.healthcheck(commands[0].name) != 0


def test_the_units_of_systemd_run(tmp_path: Path) -> None:
    with host(tmp_path, {}) as here:
        run_session(here, one_of_each(unit_commands()))
        here.stop()


def test_the_application_of_kubernetes_runs_and_ends_with_its_job(tmp_path: Path) -> None:
    commands = kubernetes_commands("application")
    options = kubernetes_configuration("application") | ON_ONE_HOST | {"parallelism.default": 1}
    (tmp_path / "application").mkdir()
    write_wheel(tmp_path / "application", {"tinyjob.py": PROGRAM}, name="wordcount", entry="tinyjob:main")
    with host(tmp_path, options) as here:
        application = here.start(commands["wordcount"])
        here.start(commands["wordcount-taskmanager"])
        for command in commands.values():
            here.wait_until_probed(command)
        here.go.touch()
        assert application.wait(DEADLINE) == 0, (tmp_path / "wordcount.log").read_text()
        here.stop()


def test_the_application_of_systemd_runs_the_program_that_its_file_names(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {"tinyjob.py": PROGRAM}, name="wordcount", entry="tinyjob:main")
    (command,) = [found for found in unit_commands().values() if found.role == "standalone-job"]
    assert command.words[-1] == "$PROGRAM"
    program = Command("application", [*command.words[:-1], "-p", "1", str(wheel), "--input", "/data"])
    with host(tmp_path, {"resourcemanager.provider": "process"}) as here:
        here.go.touch()
        assert here.start(program).wait(DEADLINE) == 0, (tmp_path / "application.log").read_text()
