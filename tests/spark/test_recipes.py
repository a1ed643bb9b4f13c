"""Recipes are read strictly: errors are reported with their line, before anything of Spark starts."""

from __future__ import annotations

import contextlib
import datetime
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import cases

from millstream.core.records import types as t
from millstream.spark.recipes.document import RecipeError, RecipeNode
from millstream.spark.recipes.recipe import PythonRecipe, YamlRecipe, load_recipe
from millstream.spark.recipes.steps import STEPS
from millstream.spark.recipes.type_names import type_of
from millstream.spark.spark_failures import cause_of

BOOTSTRAP = """\
max_parallelism: 64
job_name: visits
tables:
  history: {path: [a.parquet, b.parquet], format: parquet}
  totals: {sql: SELECT user FROM history}
  known: {table: db.users}
  before: {snapshot: /old, operator: visits, state: total}
  text: {path: x.csv, format: csv, schema: "user string", options: {header: true}}
steps:
  - with_keyed_state:
      {operator: visits, state: total, from: totals, key: user, value: [visits, cents], value_type: "tuple[int, int]",
       ttl: 30 d, expires_at: until}
  - with_timers: {operator: visits, sql: SELECT 1, key: [a, b], timestamp: at, domain: processing}
"""


def parsed(text: str, snapshot: str | None = None) -> YamlRecipe:
    return YamlRecipe.parse(dedent(text), "r.yaml", snapshot)


def refused(text: str, snapshot: str | None = None) -> str:
    with pytest.raises(RecipeError) as caught:
        parsed(text, snapshot)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_recipe_of_a_new_savepoint() -> None:
    recipe = parsed(BOOTSTRAP)
    assert (recipe.max_parallelism, recipe.job_name, recipe.load_pickles) == (64, "visits", False)
    assert [(table.name, table.form) for table in recipe.tables] == [
        ("history", "path"), ("totals", "sql"), ("known", "table"), ("before", "state"), ("text", "path")
    ]  # fmt: skip
    assert recipe.tables[-1].fields["options"] == {"header": "true"}
    keyed, timers = recipe.steps
    assert keyed.fields == {
        "operator": "visits", "state": "total", "key": "user", "value": ["visits", "cents"],
        "value_type": t.TupleType((t.LONG, t.LONG)), "ttl": datetime.timedelta(days=30), "expires_at": "until",
    }  # fmt: skip
    assert (keyed.rows_are_sql, timers.rows_are_sql) == (False, True)
    assert timers.fields["key"] == ["a", "b"]


def test_a_recipe_of_changes() -> None:
    recipe = parsed("untouched: link\npartitions: 4\nmax_parallelism: 8\nsteps:\n  - compact: {}\n", "/snapshot")
    assert recipe.write_options() == {"untouched": "link", "partitions": 4}
    assert [step.name for step in recipe.steps] == ["compact"]
    assert parsed("max_parallelism: 8", "/snapshot").steps == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "r.yaml: is empty"),
        ("steps: [", "r.yaml:1: is not YAML"),
        ("a: 1\n b: 2", "r.yaml:2: is not YAML"),
        ("steps: []\n---\nsteps: []", "is not YAML"),
        ("- 1", "r.yaml:1: the recipe must be keys with values, not a list"),
        ("stepps: []", "r.yaml:1: 'stepps' is not a key of the recipe: did you mean 'steps'?"),
        ("tables: {}\nuntouched: copy", "r.yaml:2: 'untouched' is not a key of the recipe: it can be"),
        ("tables: {}", "r.yaml:1: the recipe needs 'steps'"),
        ("steps: []\nsteps: []", "r.yaml:2: 'steps' is there twice"),
        ("steps: []\nmax_parallelism: many", "r.yaml:2: 'max_parallelism' must be a whole number, not 'many'"),
        ("steps: []\nmax_parallelism: 0", "r.yaml:2: 'max_parallelism' must be at least 1, not 0"),
        ("steps: []\nload_pickles: maybe", "r.yaml:2: 'load_pickles' must be true or false, not 'maybe'"),
        ("steps: {}", "r.yaml:1: 'steps' must be a list, not keys with values"),
        ("steps:\n  - with_timer: {}", "'with_timer' is not a step: did you mean 'with_timers'?"),
        ("steps:\n  - remove_state: {}", "r.yaml:2: 'remove_state' changes what is there"),
        ("steps:\n  - {}", "r.yaml:2: item 1 of 'steps' must be one step"),
        ("steps:\n  - with_timers: {operator: a}", "r.yaml:2: 'with_timers' needs 'key'"),
        (
            "steps:\n  - with_timers:\n      operator: a\n      keys: k",
            "r.yaml:4: 'keys' is not a key of 'with_timers': did you mean 'key'?",
        ),
        ("steps:\n- with_timers: {operator: a, key: k, timestamp: t}", "needs rows: either 'from'"),
        ("steps:\n- with_timers: {operator: a, key: k, timestamp: t, from: x, sql: y}", "needs rows: either 'from'"),
        (
            "steps:\n- with_timers: {operator: a, key: k, timestamp: t, from: x, domain: evnt}",
            "'domain' is 'evnt': did you mean 'event'?",
        ),
        (
            "steps:\n- with_keyed_state: {operator: a, state: s, key: k, value: v, from: x, ttl: soon}",
            "'ttl' must be a duration such as 30 d",
        ),
        ("steps:\n- with_timers: {operator: , key: k, timestamp: t, from: x}", "'operator' must be a text"),
        ("steps: []\ntables: {a b: {sql: SELECT 1}}", "'a b' is no name of a table"),
        ("steps: []\ntables: {a: {path: x, sql: SELECT 1}}", "'a' needs one of path, sql, table, state, and has path"),
        ("steps: []\ntables: {a: {path: x}}", "'a' needs 'format'"),
        ("steps: []\ntables: {a: {pth: x}}", "did you mean 'path'?"),
    ],
)
def test_errors_are_reported_with_their_line(text: str, message: str) -> None:
    assert message in refused(text)


def test_every_step_refuses_unknown_fields() -> None:
    for name, form in STEPS.items():
        fields = "".join(f"\n      {field}: {'x'}" for field in form.required)
        text = f"steps:\n  - {name}:{fields}\n      unheard_of: 1"
        assert refused(text, "/snapshot").endswith(
            f"r.yaml:{3 + len(form.required)}: 'unheard_of' is not a key of '{name}': it can be "
            f"{', '.join([*form.required, *form.optional, *(['from', 'sql'] if form.rows else [])])}"
        )


def test_names_are_taken_literally() -> None:
    recipe = parsed("steps: [{with_timers: {operator: 1, key: on, timestamp: null_, sql: SELECT 1}}]")
    assert recipe.steps[0].fields == {"operator": "1", "key": "on", "timestamp": "null_"}


def typed(text: str) -> Any:
    return type_of(RecipeNode.parse(f"'{text}'", "r.yaml"))


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("str", t.STRING), ("int", t.LONG), ("Integer", t.INT), ("Decimal", t.BIG_DEC), ("object", t.PICKLED),
        ("datetime", t.TIMESTAMP), ("Instant", t.INSTANT),
        ("list[tuple[str, int]]", t.ListType(t.TupleType((t.STRING, t.LONG)))),
        ("tuple[str]", t.TupleType((t.STRING,))),
        ("dict[str, list[float]]", t.MapType(t.STRING, t.ListType(t.DOUBLE))),
        ("row[name: str, at: row[x: int]]", t.RowType((t.STRING, t.RowType((t.LONG,), ("x",))), ("name", "at"))),
    ],
)  # fmt: skip
def test_types_as_written_in_recipes(text: str, type: t.TypeInformation) -> None:
    assert typed(text) == type


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("strr", "'strr' is not known: did you mean 'str'?"),
        ("list", "'list' needs what is in it"),
        ("list[", "is no type; write one as in"),
        ("dict[str]", "is not understood"),
        ("row[str]", "the fields of a row are written as name: type"),
        ("row[a: str, a: int]", "two fields of one name"),
        ("no_such_module.Thing", "cannot be imported"),
        ("datetime.MINYEAR", "is not a class"),
        ("__import__('os').system('true')", "is not understood"),
    ],
)
def test_an_invalid_type_is_refused(text: str, message: str) -> None:
    node = RecipeNode.parse(f'"{text}"', "r.yaml")
    with pytest.raises(RecipeError) as caught:
        type_of(node)
    assert message in str(caught.value)


@settings(max_examples=cases(200))
@given(st.text(max_size=60) | st.text("-{}[]:,& *!|>'\"%@#?\n stepwih_", max_size=60))
def test_arbitrary_text_is_at_most_refused(text: str) -> None:
    with contextlib.suppress(RecipeError):
        parsed(text)


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(dedent(text))
    return str(folder / name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "r.py: has no function recipe(spark), which a recipe is"),
        ("recipe = 3", "r.py: has no function recipe(spark), which a recipe is"),
        ("def recipe(): ...", "r.py: recipe() must be recipe(spark)"),
        ("def recipe(spark, snapshot): ...", "recipe(spark, snapshot) must be recipe(spark)"),
        ("import nowhere", "r.py:1: ModuleNotFoundError: No module named 'nowhere'"),
        ("def recipe(spark)", "r.py:1: expected ':'"),
    ],
)
def test_python_that_is_not_a_recipe(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe(write(tmp_path, "r.py", text))
    assert message in str(caught.value)


def test_errors_of_a_python_recipe_have_its_line(tmp_path: Path) -> None:
    recipe = load_recipe(write(tmp_path, "r.py", "def recipe(spark):\n    x = {}\n    return x['a']\n"))
    assert isinstance(recipe, PythonRecipe)
    with pytest.raises(RecipeError, match=r"r\.py:3: KeyError: 'a'"):
        recipe.writer(None)
    recipe = load_recipe(write(tmp_path, "s.py", "def recipe(spark, snapshot):\n    return snapshot\n"), "/snapshot")
    with pytest.raises(RecipeError, match=r"s\.py: recipe\(\) must return a SavepointWriter, not str"):
        recipe.writer(None)


def test_files_that_are_not_recipes(tmp_path: Path) -> None:
    for path, message in (
        (str(tmp_path / "none.yaml"), "none.yaml: the recipe cannot be read: No such file or directory"),
        (str(tmp_path), "the recipe cannot be read: Is a directory"),
        (write(tmp_path, "r.toml", "a = 1"), "r.toml: a recipe is a .yaml or a .py file"),
    ):
        with pytest.raises(RecipeError) as caught:
            load_recipe(path)
        assert message in str(caught.value)
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(RecipeError, match=r"b\.yaml: the recipe cannot be read: is not UTF-8"):
        load_recipe(str(tmp_path / "b.yaml"))


TASK = """\
An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 1, in invoke
ValueError: 7

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "reader.py", line 2, in read
millstream.core.snapshot.errors.SnapshotError: /s/part-0.parquet: is damaged
 SQLSTATE: 38000
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TASK, "/s/part-0.parquet: is damaged"),
        (TASK.replace("millstream.core.snapshot.errors.", "other."), "SnapshotError: /s/part-0.parquet: is damaged"),
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table or view `x` cannot be found. SQLSTATE: 42P01; line 1 pos 14;\n'P",
            "The table or view `x` cannot be found",
        ),
        (
            "An error occurred while calling None.org.X.\n: org.apache.spark.SparkException: Could not parse it\n\tat",
            "Could not parse it",
        ),
        ("", "Spark gives no reason"),
    ],
)
def test_the_cause_is_extracted_from_sparks_message(text: str, message: str) -> None:
    assert cause_of(text) == message
