"""Every command of docs/spark-recipes.md does what the page describes: in this process, with its Spark, to be quick."""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from doc_blocks import DOCS, blocks_of

from millstream.cli.main import main
from millstream.spark.recipes.steps import STEPS

PAGE = DOCS / "spark-recipes.md"


def commands() -> Iterator[list[str]]:
    for block in blocks_of(PAGE):
        if block.language == "sh":
            assert block.mark == "run", block.text
            yield from (shlex.split(line) for line in block.text.replace("\\\n", "").splitlines())


@pytest.mark.process
@pytest.mark.slow
def test_the_commands_of_the_page(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks_of(PAGE):
        if block.file is not None:
            Path(block.file).write_text(block.text)
    printed: dict[str, str] = {}
    for command in commands():
        if command[0] == "python":
            runpy.run_path(command[1], run_name="__main__")
        else:
            assert command[:2] == ["millstream", "state"], command
            assert main(command[1:]) == 0, f"{command}: {capsys.readouterr().err}"
        printed[" ".join(command)] = " ".join(capsys.readouterr().out.split())

    def shown(*arguments: str) -> str:
        assert main(["state", "show", *arguments]) == 0
        return " ".join(capsys.readouterr().out.split())

    totals = printed["millstream state show savepoints/shop shop total"]
    assert all(row in totals for row in ("ada (2, 550)", "bob (1, 500)", "bot-7 (1, 1)", "eve (1, 120)"))
    assert printed["millstream state diff --spark savepoints/shop savepoints/small"] == "Both hold the same state."
    assert "bot-7" not in shown("savepoints/fixed", "shop", "spent")
    changed = printed["millstream state show savepoints/currency shop total"]
    assert "ada (orders=2, cents=550, currency='EUR')" in changed
    assert "ada 550" in shown("savepoints/currency", "shop", "cents")
    assert "ada 0 flour" in shown("savepoints/split", "log", "history", "--key", "ada")
    assert "ada 550" in shown("savepoints/split", "orders-by-user", "spent")
    assert "bob 700" in shown("savepoints/merged", "shop", "spent")
    assert "kim 50" in shown("savepoints/merged", "shop", "spent")
    assert "ada 2" in shown("savepoints/typed", "shop", "note")
    assert printed["millstream state show savepoints/pauses pauses pause"] == "KEY VALUE ada 91800"
    assert sorted(pq.read_table("exported/total").column("key").to_pylist()) == ["ada", "bob", "bot-7", "eve"]
    (part,) = (file for file in Path("exported/items").glob("*.csv") if file.stat().st_size)
    assert pyarrow.csv.read_csv(part).to_pylist()[0] == {"user": "ada", "item": "flour", "times": 1}
    assert '|removed|"bot-7"| 1|NULL|' in printed["python audit.py"]
    assert printed["python audit.py"].endswith("different")


def test_the_page_names_every_step_and_field() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.read_text(), re.M))
    for name, form in STEPS.items():
        fields = {*form.required, *form.optional}
        assert fields <= {*re.findall(r"`(\w+)`", rows[name])}, name
