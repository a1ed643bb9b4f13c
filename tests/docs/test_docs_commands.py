"""Every command in README.md and docs/getting-started.md works as described."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from doc_blocks import DOCS, ROOT, blocks_of
from doc_shell import DEADLINE, Shell
from waiting import wait_until

README = ROOT / "README.md"


def commands_of(page: Path) -> str:
    return "".join(b.text for b in blocks_of(page) if b.language == "sh" and b.tested and "daemons" not in b.mark)


def outcomes(shell: Shell, lines: str) -> str:
    """Runs the commands of a page as one script, and stops the cluster whatever happens."""
    try:
        return shell.run(shell.adapted(lines))
    finally:
        shell.run("millstream cluster stop")


UNTIL_THERE_IS_MORE = """
BEFORE=$(ls /tmp/visits/*.jsonl | wc -l)
until [ $(ls /tmp/visits/*.jsonl | wc -l) -gt $BEFORE ]; do sleep 0.1; done
"""  # from the job that was restored


@pytest.mark.process
def test_the_commands_of_the_readme(shell: Shell) -> None:
    shell.write_files(blocks_of(README))
    start, proof, rest = commands_of(README).partition("python proof.py")
    output = outcomes(shell, start + UNTIL_THERE_IS_MORE + proof + rest)
    printed = next(b.text for b in blocks_of(README) if "Ride(city=" in b.text and b.language == "text")
    for line in printed.splitlines():
        assert line in output
    proven = {int(count) for count in re.findall(r"^user \d: (\d+) visits, each exactly once$", output, re.M)}
    counted = {int(count) for count in re.findall(r"^user \d +(\d+)$", output, re.M)}
    assert len(re.findall(r"each exactly once$", output, re.M)) == 5
    assert max(proven) > max(counted), "the second job continued to count"
    assert re.search(r"fares by city and minute +FINISHED", output)
    assert '"status":"success"' in output
    assert "Stopped the cluster" in output
    assert sum(part.stat().st_size for part in (shell.temporary / "counts").glob("part-*.jsonl")) > 1_000_000
    out = "".join(p.read_text() for p in (shell.folder / ".millstream/cluster/log").glob("taskmanager-*.out"))
    assert all(line in out for line in printed.splitlines())
    run_daemons(shell)


@pytest.mark.process
def test_the_commands_of_getting_started(shell: Shell) -> None:
    page = DOCS / "getting-started.md"
    shell.write_files(blocks_of(page))
    output = outcomes(shell, commands_of(page))
    printed = next(b.text for b in blocks_of(page) if "> Reading(" in b.text)
    assert sorted(re.findall(r"^\d+> Reading.*", output, re.M)[:3]) == sorted(printed.splitlines())
    assert "could not convert string to float: 'warm'" in output
    assert "on the record 'north,warm'" in output
    assert "exit status 1" in output
    assert re.search(r"Job [0-9a-f]{32} is CANCELED", output)
    assert "Stopped the cluster" in output
    shown = next(b.text for b in blocks_of(page) if "on the record" in b.text)
    for line in shown.splitlines():
        fixed = re.split(r"'broken|File \"| on 127| \([0-9a-f]{4}\.\.\.\)", line)[0].rstrip()
        assert fixed in output, line


def run_daemons(shell: Shell) -> None:
    """The README's last commands, in the shell and the home of those before them: the cluster there is stopped."""
    blocks = blocks_of(README)
    daemons = [line for block in blocks if block.mark == "daemons" for line in block.text.splitlines()]
    assert len(daemons) == 4
    random.shuffle(daemons)
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in daemons:
            started.append(shell.start(command))
        wait_until(lambda: overview(shell.rest).get("slots-available") == 2, f"started as {daemons}", DEADLINE)
        (client,) = (block.text for block in blocks if block.mark == "with daemons")
        shell.run(shell.adapted(client))
        assert "Ride(city='Leiden', time=20000, fare=7.5)" in (shell.folder / "taskmanager.log").read_text()
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        statuses = [process.wait(DEADLINE) for process in started]
    assert statuses == [0, 0, 0, 0]


def overview(rest: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"http://{rest}/overview", timeout=5) as response:
            found: dict[str, Any] = json.load(response)
            return found
    except OSError:
        return {}


@pytest.mark.process
@pytest.mark.slow
def test_the_curl_commands_of_the_rest_page(shell: Shell) -> None:
    page = DOCS / "rest-api.md"
    script = "".join(block.text for block in blocks_of(page) if block.mark == "rest")
    start = "millstream cluster start --slots 2\n"
    build = "python -m pip wheel --quiet --no-deps --wheel-dir dist examples/wordcount\n"
    output = outcomes(shell, start + build + script)
    assert '"status":"success"' in output
    assert '"ship_strategy":"HASH"' in output
    assert '"exceptionHistory"' in output
    assert '"slotsNumber":2' in output
    assert '"errors"' not in output


@pytest.mark.process
def test_two_jobs_with_conflicting_versions(shell: Shell) -> None:
    blocks = blocks_of(DOCS / "wheels-and-environments.md")
    shell.write_files(blocks)
    (script,) = (block.text for block in blocks if block.mark == "conflicting")
    logs = shell.folder / ".millstream/cluster/log"

    def printed() -> list[str]:
        return [line for file in logs.glob("taskmanager-1.*.out") for line in file.read_text().splitlines()]

    try:
        shell.run(shell.adapted("millstream cluster start --slots 2\n" + script))
        wait_until(lambda: len(printed()) == 6, "both jobs have printed", DEADLINE)
    finally:
        shell.run("millstream cluster stop")
    assert sorted(printed()) == ["inflection 0.5.0"] * 3 + ["inflection 0.5.1"] * 3


@pytest.mark.process
def test_make_knows_the_targets_that_the_readme_names() -> None:
    (block,) = (block for block in blocks_of(README) if "make demo" in block.text)
    targets = re.findall(r"^make ([\w-]+)", block.text, re.M)
    assert targets == ["demo", "check", "test", "test-slow", "test-long", "bench"]
    subprocess.run(["make", "-n", *targets], cwd=ROOT, check=True, capture_output=True, timeout=DEADLINE)


def test_every_command_is_accounted_for() -> None:
    """A block that is not tested has a reason, and commands are run only in these pages."""
    for page in (README, DOCS / "getting-started.md"):
        for block in blocks_of(page):
            assert block.language in ("sh", "python", "text", "yaml"), f"{page}: {block}"
            if block.language == "sh" and not block.tested:
                assert len(block.mark) > len("untested: ") + 10, f"{page}: {block}"
