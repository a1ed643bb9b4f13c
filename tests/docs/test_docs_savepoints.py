"""The commands of docs/savepoints.md work as described: a job stops with its counts and continues with them."""

from __future__ import annotations

import re

import pytest
from doc_blocks import DOCS, blocks_of
from doc_shell import Shell

pytestmark = [pytest.mark.process, pytest.mark.slow]

UNTIL_IT_COUNTS = """
until grep -q "user 4 came 1[0-9] times" ~/.millstream/cluster/log/taskmanager-*.out; do sleep 0.1; done
"""


def test_the_commands_of_the_page(shell: Shell) -> None:
    blocks = blocks_of(DOCS / "savepoints.md")
    shell.write_files(blocks)
    take, stop, start, read, dispose = (block.text for block in blocks if block.mark == "savepoints")
    (over_rest,) = (block.text for block in blocks if block.mark == "savepoints over REST")
    lines = take.splitlines(keepends=True)
    script = "".join(lines[:-1]) + UNTIL_IT_COUNTS + lines[-1] + over_rest + stop + start + read + dispose
    try:
        output = shell.run(shell.adapted(script))
    finally:
        shell.run("millstream cluster stop")
    assert re.search(r"^Savepoint completed\. Path: file://\S+/savepoints/savepoint-", output, re.M)
    assert re.search(r"visits +FINISHED", output)
    counts = [int(count) for count in re.findall(r"^ *user \d +(\d+)$", output, re.M)]
    assert len(counts) == 5
    assert min(counts) >= 10
    assert re.search(r"^Savepoint 'file://\S+' disposed\.$", output, re.M)
    assert '"counts":' in output
    assert '"errors"' not in output
