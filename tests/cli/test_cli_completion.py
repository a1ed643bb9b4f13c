"""`millstream completion`: what shells complete with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import DEADLINE

pytestmark = pytest.mark.process

JOBS = [("ab12" + "0" * 28, "orders"), ("cd34" + "0" * 28, "visits")]
_COMPLETE = """
source {script}
COMP_WORDS=({words} "$1") COMP_CWORD={place} COMP_LINE="" COMP_POINT=0
_millstream_completion millstream "$1" ""
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(cli: Any, words: str, last: str) -> list[str]:
    script = cli.home / "completion.bash"
    script.write_text(cli("completion", "bash").stdout)
    program = _COMPLETE.format(script=script, words=words, place=len(words.split()))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", program, "bash", last], env={**cli.environment, "PATH": path}, cwd=cli.home,
        capture_output=True, text=True, timeout=DEADLINE, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.splitlines() if done.stdout != "\n" else []


def test_bash_completes_commands_options_and_jobs(cli: Any, fake_cluster: Any) -> None:
    fake_cluster.responses["GET /jobs/overview"] = shown(JOBS)
    assert completed(cli, "millstream", "ca") == ["cancel"]
    assert {"--savepointPath", "--drain"} <= set(completed(cli, "millstream stop", "--"))
    address = f"millstream cancel -m {fake_cluster.address}"
    assert completed(cli, address, "or") == ["orders"]
    assert completed(cli, address, "cd") == [JOBS[1][0]]
    for command in ("logs", "top", "savepoint", "rescale", "exceptions"):
        assert completed(cli, f"millstream {command} -m {fake_cluster.address}", "vis") == ["visits"], command


def shown(jobs: list[tuple[str, str]]) -> tuple[int, Any]:
    entries = [{"jid": jid, "name": name, "state": "RUNNING", "start-time": 0, "end-time": -1} for jid, name in jobs]
    return 200, {"jobs": entries}


def test_names_of_jobs_with_spaces_commas_and_wildcards(cli: Any, fake_cluster: Any) -> None:
    """What is completed is one word for the shell, and the job's name."""
    name = "fares, by city $(id) *"
    fake_cluster.responses["GET /jobs/overview"] = shown([("ab12" + "0" * 28, name)])
    (word,) = completed(cli, f"millstream cancel -m {fake_cluster.address}", "fa")
    printed = subprocess.run(["bash", "-c", f"printf '%s|' {word}"], capture_output=True, text=True, check=True)
    assert printed.stdout == f"{name}|"
    assert completed(cli, f"millstream cancel -m {fake_cluster.address}", "'fa") == [name]
    assert 'string split -m 1 ","' in cli("completion", "fish").stdout


def test_without_a_cluster_no_job_is_completed(cli: Any) -> None:
    assert completed(cli, "millstream cancel -m 127.0.0.1:1", "o") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_of_all_shells(cli: Any, shell: str) -> None:
    done = cli("completion", shell)
    assert done.returncode == 0
    assert "_MILLSTREAM_COMPLETE" in done.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n", "-c", done.stdout], check=True, timeout=DEADLINE)
    assert "'csh' is not one of" in cli("completion", "csh").stderr
