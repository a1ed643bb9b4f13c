"""`state bootstrap`, `rewrite`, `export` and `diff --spark`, in this process and with its Spark."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from millstream.cli.main import main
from millstream.core.snapshot.inspection.opened import open_snapshot
from millstream.core.snapshot.tables.restore import read_rows

pytestmark = [pytest.mark.process, pytest.mark.slow]

Command = Callable[..., str]


@pytest.fixture
def run(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Runs a command and returns its output: the error's single line after a failure."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str, status: int = 0, text: str | None = None) -> str:
        if text is not None:
            Path("recipe.yaml").write_text(dedent(text))
        capsys.readouterr()
        found = main(["state", *arguments])
        output = capsys.readouterr()
        assert found == status, output.err
        if status == 0 or output.out:
            assert output.err == ""
            return output.out
        (line,) = output.err.splitlines()
        return line

    return command


def rows(snapshot: str, operator: str, state: str) -> list[Any]:
    """The rows of a state: as `key`, detail and content, without what a kind does not have."""
    opened = open_snapshot(snapshot)
    found = opened.state(opened.operator(operator), state)
    result = []
    for _, table in opened.tables(found):
        read = read_rows(table, found, unpickle=True)
        columns = [column for column in (read.keys, read.namespaces, read.detail, read.content) if column]
        result += [row[0] if len(row) == 1 else row for row in zip(*columns, strict=True)]
    return sorted(result, key=repr)


EVERYTHING = """\
    max_parallelism: 16
    job_name: everything
    tables:
      users: {sql: "SELECT * FROM VALUES ('a', 1, 10, 'x'), ('b', 2, 20, 'y') AS t(user, n, cents, page)"}
      pages: {sql: "SELECT user, array(page, 'z') AS pages, map(page, n) AS seen FROM users"}
    steps:
      - with_keyed_state: {operator: o, state: value, from: users, key: user, value: n, value_type: int}
      - with_keyed_state:
          {operator: o, state: pair, from: users, key: user, value: [n, cents], value_type: "tuple[int, int]"}
      - with_keyed_state: {operator: p, state: composite, from: users, key: [user, n], value: page}
      - with_keyed_state: {operator: o, state: list, kind: list, from: pages, key: user, value: pages}
      - with_keyed_state: {operator: o, state: map, kind: map, from: users, key: user, map_key: page, value: n}
      - with_keyed_state: {operator: o, state: sum, kind: reducing, from: users, key: user, value: cents, ttl: 1 h}
      - with_timers: {operator: o, sql: "SELECT user, 1000L AS at FROM users", key: user, timestamp: at}
      - with_window_state:
          operator: w
          sql: SELECT user, n, 0L AS begin, 60000L AS until FROM users
          key: user
          value: n
          start: begin
          end: until
      - with_operator_state: {operator: q, state: buffer, from: users, value: page}
      - with_operator_state: {operator: q, state: all, from: users, value: page, union: true}
      - with_broadcast_state: {operator: q, state: rules, from: users, key: user, value: n}
      - with_source_positions: {operator: s, sql: "SELECT 'file:///data/a%20b.parquet' AS path", files_read: path}
"""


@pytest.fixture(scope="module")
def made(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The savepoint of that recipe, and the command's output."""
    folder = tmp_path_factory.mktemp("everything")
    (folder / "recipe.yaml").write_text(dedent(EVERYTHING))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(["state", "bootstrap", str(folder / "recipe.yaml"), str(folder / "sp")]) == 0
    return folder, printed.getvalue()


@pytest.fixture
def everything(made: tuple[Path, str], tmp_path: Path) -> str:
    """The savepoint as `sp` in the test's folder."""
    (tmp_path / "sp").symlink_to(made[0] / "sp")
    (tmp_path / "recipe.yaml").write_text(dedent(EVERYTHING))
    return made[1]


def test_a_recipe_bootstraps_every_kind_of_state(run: Command, everything: str, made: tuple[Path, str]) -> None:
    printed = everything
    assert printed.startswith(f"Savepoint written. Path: {(made[0] / 'sp').as_uri()}\n")
    assert rows("sp", "o", "value") == [("a", 1), ("b", 2)]
    assert rows("sp", "o", "pair") == [("a", (1, 10)), ("b", (2, 20))]
    assert [content for _, content in rows("sp", "p", "composite")] == ["x", "y"]
    assert rows("sp", "o", "list") == [("a", 0, "x"), ("a", 1, "z"), ("b", 0, "y"), ("b", 1, "z")]
    assert rows("sp", "o", "map") == [("a", "x", 1), ("b", "y", 2)]
    assert rows("sp", "o", "sum") == [("a", 10), ("b", 20)]
    assert rows("sp", "q", "buffer") == rows("sp", "q", "all") == [(0, "x"), (1, "y")]
    assert rows("sp", "q", "rules") == [("a", 1), ("b", 2)]
    listing = json.loads(run("ls", "--json", "sp"))
    assert {(operator["uid"], state["name"], state["kind"]) for operator in listing["operators"]
            for state in operator["states"]} >= {("o", "sum", "reducing"), ("s", "splits", "splits")}  # fmt: skip
    assert [operator["max_parallelism"] for operator in listing["operators"]] == [16] * 5
    assert "enumerator.s" in open_snapshot("sp").metadata.properties
    assert run("diff", "--spark", "sp", "sp") == "Both hold the same state.\n"
    again = run("bootstrap", "recipe.yaml", "sp", status=1)
    assert again.startswith("millstream state bootstrap: ")
    assert "there is a savepoint already: write to another folder" in again


REWRITTEN = """\
    max_parallelism: 8
    untouched: copy
    load_pickles: true
    tables:
      lists: {operator: o, state: list}
      more: {sql: "SELECT 'b' AS user, 5 AS n UNION ALL SELECT 'c', 6"}
    steps:
      - remove_operator: {operator: w}
      - change_operator_identifier: {operator: q, to: queue}
      - remove_state: {operator: o, state: map}
      - rename_state: {operator: o, state: pair, to: totals}
      - transform_state:
          operator: o
          state: value
          sql: SELECT key, concat('n', value) AS value FROM {state}
      - with_keyed_state:
          {operator: other, state: elements, kind: list, from: lists, key: key, value: element, position: position}
      - with_keyed_state: {operator: o, state: sum2, kind: reducing, sql: "SELECT 'a' AS k, 1 AS v", key: k, value: v}
      - filter_keys: {operator: p, where: key.f0 <> 'a'}
      - compact: {}
"""


def test_a_recipe_rewrites_a_savepoint(run: Command, everything: str) -> None:
    before = rows("sp", "o", "value")
    printed = json.loads(run("rewrite", "--json", "recipe.yaml", "sp", "new", text=REWRITTEN))
    assert {operator["uid"] for operator in printed["operators"]} == {"o", "p", "queue", "s", "other"}
    assert {operator["max_parallelism"] for operator in printed["operators"]} == {8}
    assert rows("new", "o", "totals") == [("a", (1, 10)), ("b", (2, 20))]
    assert rows("new", "o", "value") == [("a", "n1"), ("b", "n2")]
    assert rows("new", "other", "elements") == rows("sp", "o", "list")
    assert [content for _, content in rows("new", "p", "composite")] == ["y"]
    assert rows("new", "queue", "buffer") == [(0, "x"), (1, "y")]
    assert rows("sp", "o", "value") == before
    merged = """\
        steps:
          - with_keyed_state:
              operator: o
              state: value
              sql: SELECT 'b' AS user, 5 AS n UNION ALL SELECT 'c', 6
              key: user
              value: n
              value_type: int
              on_conflict: new
    """
    run("rewrite", "recipe.yaml", "sp", "merged", text=merged)
    assert rows("merged", "o", "value") == [("a", 1), ("b", 5), ("c", 6)]
    out = run("diff", "--spark", "sp", "merged", status=1)
    assert out == run("diff", "sp", "merged", status=1)
    assert "~ state value: 1 added, 0 removed, 1 changed" in out


PYTHON = '''\
from dataclasses import dataclass

from millstream.spark import SavepointWriter
from millstream.spark.functions import KeyedStateBootstrapFunction


class Longest(KeyedStateBootstrapFunction):
    def open(self, runtime_context):
        self.longest = runtime_context.get_state("longest", str)

    def process_element(self, row, ctx):
        if len(row["word"]) > len(self.longest.value() or ""):
            self.longest.update(row["word"])


def recipe(spark):
    words = spark.createDataFrame([("a", "xx"), ("a", "x"), ("b", "yyy")], "user string, word string")
    return SavepointWriter.new_savepoint(spark, 4).with_keyed_function("o", words, "user", Longest())
'''
CHANGE = """\
from millstream.spark import SavepointWriter


def recipe(spark, snapshot):
    writer = SavepointWriter.from_existing_savepoint(spark, snapshot)
    return writer.transform_state("o", "longest", lambda state: state.where("key = 'b'"))
"""


def test_python_recipes(run: Command, tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(PYTHON)
    (tmp_path / "change.py").write_text(CHANGE)
    run("bootstrap", "new.py", "sp")
    assert rows("sp", "o", "longest") == [("a", "xx"), ("b", "yyy")]
    run("rewrite", "change.py", "sp", "changed")
    assert rows("changed", "o", "longest") == [("b", "yyy")]
    (tmp_path / "fails.py").write_text("def recipe(spark):\n    return spark.table('nowhere')\n")
    assert "`nowhere` cannot be found" in run("bootstrap", "fails.py", "x", status=1)


def test_states_are_exported(run: Command, everything: str, spark: Any, tmp_path: Path) -> None:
    assert run("export", "sp", "o", "value", "out") == f"2 rows written. Path: {tmp_path}/out\n"
    assert sorted(pq.read_table("out").column("key").to_pylist()) == ["a", "b"]
    printed = json.loads(run("export", "--json", "sp", "o", "pair", "csv", "--format", "csv"))
    assert (printed["rows"], printed["format"]) == (2, "csv")
    part, *more = sorted(Path("csv").glob("*.csv"))
    texts = [value for file in (part, *more) for value in pyarrow.csv.read_csv(file).column("value").to_pylist()]
    assert sorted(texts) == ['{"f0":1,"f1":10}', '{"f0":2,"f1":20}']
    query = "SELECT key AS user, map_key AS page FROM {state} WHERE key = 'a'"
    run("export", "sp", "o", "map", "json", "--format", "json", "--sql", query)
    lines = [json.loads(line) for file in Path("json").glob("*.json") for line in file.read_text().splitlines()]
    assert lines == [{"user": "a", "page": "x"}]
    try:
        run("export", "sp", "o", "sum", "exported_sums", "--format", "table")
        assert spark.table("exported_sums").count() == 2
    finally:
        spark.sql("DROP TABLE IF EXISTS exported_sums")
    assert "already exists" in run("export", "sp", "o", "value", "out", status=1)
    run("export", "sp", "o", "value", "out", "--mode", "overwrite")
    assert pq.read_table("out").num_rows == 2


def test_an_impossible_command_is_reported_in_one_line(run: Command, tmp_path: Path) -> None:
    output = run("bootstrap", "none.yaml", "x", status=1)
    assert output == "millstream state bootstrap: none.yaml: the recipe cannot be read: No such file or directory"
    output = run("bootstrap", "recipe.yaml", "x", text="steps: [", status=1)
    assert output.startswith("millstream state bootstrap: recipe.yaml:1: is not YAML")
    missing = "tables: {a: {path: nowhere, format: parquet}}\nsteps: []"
    output = run("bootstrap", "recipe.yaml", "x", text=missing, status=1)
    assert "recipe.yaml:1: 'a': " in output
    assert "nowhere" in output
    secret = "tables: {a: {path: 'file://me:hidden@host/x', format: parquet}}\nsteps: []"
    output = run("bootstrap", "recipe.yaml", "x", text=secret, status=1)
    assert "recipe.yaml:1: 'a': " in output
    assert "hidden" not in output
    nameless = "steps:\n  - with_timers: {operator: o, from: tabel, key: k, timestamp: t}"
    assert "recipe.yaml:2: 'from' names the table 'tabel', which is not there" in run(
        "bootstrap", "recipe.yaml", "x", text=nameless, status=1
    )
    wrong = "steps:\n\n  - with_timers: {operator: o, sql: SELEC 1, key: k, timestamp: t}"
    assert "recipe.yaml:3: 'with_timers': " in run("bootstrap", "recipe.yaml", "x", text=wrong, status=1)
    columns = "steps:\n  - with_timers: {operator: o, sql: SELECT 1 AS k, key: kk, timestamp: t}"
    assert "recipe.yaml:2: 'with_timers': " in run("bootstrap", "recipe.yaml", "x", text=columns, status=1)
    twice = """\
        steps:
          - with_keyed_state:
              {operator: o, state: s, sql: "SELECT 'a' AS k, 1 AS v UNION ALL SELECT 'a', 2", key: k, value: v}
    """
    output = run("bootstrap", "recipe.yaml", "x", text=twice, status=1)
    assert "state 's' has 2 rows for key 'a': keep one of them" in output
    assert not Path("x").exists()
    run("bootstrap", "recipe.yaml", "sp", text=twice.replace("UNION ALL SELECT 'a', 2", ""))
    unknown = "steps:\n  - remove_state: {operator: o, state: ss}"
    output = run("rewrite", "recipe.yaml", "sp", "x", text=unknown, status=1)
    assert "recipe.yaml:2: 'remove_state': " in output
    assert "did you mean 's'?" in output
    assert "_metadata.json" in run("rewrite", "recipe.yaml", "nowhere", "x", status=1)
    assert "has no state 'ss'" in run("export", "sp", "o", "ss", "x", status=1)
    assert "SQL" not in run("export", "sp", "o", "s", "x", "--sql", "SELECT nothing FROM {state}", status=1)
    assert "write it as --conf key=value" in run("export", "sp", "o", "s", "x", "--conf", "a", status=2)
    assert "add --spark" in run("diff", "sp", "sp", "--master", "local", status=2)
    assert not Path("x").exists()
