"""The commands of examples/bootstrap/README.md: a job that starts on its history counts as one that read all of it.

A JVM, a cluster and a job in local mode, as a user has them.
"""

from __future__ import annotations

import re

import pytest
from doc_blocks import ROOT, blocks_of
from doc_shell import Shell

pytestmark = pytest.mark.process


def test_the_bootstrapped_job_ends_with_the_totals_of_all_days(shell: Shell) -> None:
    blocks = blocks_of(ROOT / "examples" / "bootstrap" / "README.md")
    history, live, compare = (block.text for block in blocks if block.language == "sh")
    shell.variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    output = shell.run(shell.adapted(history))
    assert re.search(r"^Savepoint written\. Path: file://\S+/savepoint$", output, re.M)
    assert re.search(r"^user \d+ +\(\d+, \d+\)$", output, re.M), "the totals are shown"
    assert "WARN" not in output, "Spark's log is not mixed in"
    try:
        output = shell.run(shell.adapted(live))
    finally:
        shell.run("millstream cluster stop")
    assert re.search(r"^totals +total \(value\) +same", output, re.M)
    assert re.search(r"^totals +pages \(map\) +same", output, re.M)
    assert "The same totals for 40 users: 2500 visits counted on 10000.\n" in shell.run(compare)
