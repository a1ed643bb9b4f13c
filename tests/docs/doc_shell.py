"""A place to run the commands of the documentation: a folder, a home, and free ports in place of the default ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from doc_blocks import ROOT, Block
from ports import free_ports
from processes import fresh_environment, kill_those_with, processes_with

DEADLINE = 500.0


class Shell:
    """Runs commands in a folder of its own. `~` and `/tmp` of the pages are in it; port 8081 is another one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        (folder / "examples").symlink_to(ROOT / "examples")
        self.ports = free_ports()
        self.rest = f"127.0.0.1:{self.ports['rest.port']}"
        self.variables = fresh_environment(
            HOME=str(folder),
            TMPDIR=str(self.temporary),
            PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            PIP_CACHE_DIR=os.environ.get("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip")),
        )

    def write_files(self, blocks: list[Block]) -> None:
        for block in blocks:
            if block.file is not None:
                path = self.folder / block.file
                path.parent.mkdir(exist_ok=True)
                path.write_text(block.text)

    def adapted(self, text: str) -> str:
        """The commands with the ports and folders of this test."""
        options = " ".join([f"--timeout {DEADLINE:g}", *(f"-D {key}={port}" for key, port in self.ports.items())])
        text = text.replace("millstream cluster start", f"millstream cluster start {options}")
        return text.replace("127.0.0.1:8081", self.rest).replace("/tmp/", f"{self.temporary}/")

    def run(self, script: str) -> str:
        """Everything that the script prints. It must succeed, with each command in it."""
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script], cwd=self.folder, env=self.variables, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=DEADLINE)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        assert process.returncode == 0, f"{script}\n{output}"
        return output

    def start(self, command: str) -> subprocess.Popen[bytes]:
        """A daemon in the foreground, with its log in a file."""
        name = command.split()[1]
        options = [part for key, port in self.ports.items() for part in ("-D", f"{key}={port}")]
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [*command.split(), *options], cwd=self.folder, env=self.variables, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def left_running(self) -> list[int]:
        return processes_with(f"TMPDIR={self.temporary}\0")

    def kill_rest(self) -> None:
        kill_those_with(f"TMPDIR={self.temporary}\0")
