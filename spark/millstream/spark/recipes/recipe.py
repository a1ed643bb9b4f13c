"""A recipe, read from its file: YAML, or Python with a function `recipe`.

```yaml
max_parallelism: 128
tables:
  history: {path: history, format: parquet}
steps:
  - with_keyed_state: {operator: visits, state: count, from: history, key: user, value: visits}
```
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from millstream.core.errors import MillstreamError
from millstream.core.snapshot.errors import one_line
from millstream.spark.recipes.applying import apply_steps
from millstream.spark.recipes.document import RecipeError, RecipeNode
from millstream.spark.recipes.steps import Step, steps_of
from millstream.spark.recipes.tables import Table, Tables, tables_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from millstream.spark.savepoint_writer import SavepointWriter

_MAX_PARALLELISM = 128
_MODULE = "millstream_recipe"


class Recipe(Protocol):
    """What a savepoint is made of."""

    def writer(self, spark: SparkSession) -> SavepointWriter:
        """What is to be written; nothing is, yet."""
        ...

    def write_options(self) -> dict[str, Any]:
        """The recipe's options for `SavepointWriter.write`."""
        ...


def load_recipe(path: str, snapshot: str | None = None) -> Recipe:
    """The recipe in a file: of a new savepoint, or of one that is made of a snapshot."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise RecipeError(f"{path}: the recipe cannot be read: {reason}") from error
    if file.suffix == ".py":
        return PythonRecipe(path, snapshot)
    if file.suffix not in (".yaml", ".yml"):
        raise RecipeError(f"{path}: a recipe is a .yaml or a .py file")
    return YamlRecipe.parse(text, path, snapshot)


class YamlRecipe(Struct, frozen=True):
    """A recipe whose tables and steps are written out."""

    snapshot: str | None
    tables: list[Table]
    steps: list[Step]
    max_parallelism: int | None = None
    job_name: str = ""
    load_pickles: bool = False
    options: dict[str, Any] = {}

    @staticmethod
    def parse(text: str, file: str, snapshot: str | None) -> YamlRecipe:
        """Reads it strictly; nothing of Spark is needed."""
        node = RecipeNode.parse(text, file)
        new = snapshot is None
        sections = ("tables", "steps", "max_parallelism", "load_pickles", "partitions")
        given = node.fields(optional=(*sections, "job_name" if new else "untouched"))
        if new and "steps" not in given:
            raise node.error("needs 'steps': what the savepoint is made of")
        options: dict[str, Any] = {}
        if "partitions" in given:
            options["partitions"] = given["partitions"].integer(1)
        if "untouched" in given:
            options["untouched"] = given["untouched"].choice("copy", "link")
        most = given["max_parallelism"].integer(1) if "max_parallelism" in given else None
        return YamlRecipe(
            snapshot,
            tables_of(given["tables"]) if "tables" in given else [],
            steps_of(given["steps"], adding_only=new) if "steps" in given else [],
            _MAX_PARALLELISM if new and most is None else most,
            given["job_name"].text() if "job_name" in given else "",
            "load_pickles" in given and given["load_pickles"].flag(),
            options,
        )

    def writer(self, spark: SparkSession) -> SavepointWriter:
        """The writer, with all steps planned."""
        writer = _new_writer(spark, self.snapshot, self.max_parallelism, self.load_pickles, self.job_name)
        tables = Tables(spark, self.snapshot)
        with tables.defined(self.tables):
            apply_steps(writer, self.steps, tables)
        return writer

    def write_options(self) -> dict[str, Any]:
        """The recipe's options for the files."""
        return self.options


def _new_writer(
    spark: SparkSession, snapshot: str | None, most: int | None, load_pickles: bool, job_name: str
) -> SavepointWriter:
    from millstream.spark.savepoint_writer import SavepointWriter

    if snapshot is not None:
        return SavepointWriter.from_existing_savepoint(spark, snapshot, max_parallelism=most, load_pickles=load_pickles)
    return SavepointWriter.new_savepoint(spark, most or _MAX_PARALLELISM, job_name=job_name, load_pickles=load_pickles)


class PythonRecipe:
    """A file with `recipe(spark)`, which returns a writer; for a rewrite `recipe(spark, snapshot)`."""

    def __init__(self, path: str, snapshot: str | None) -> None:
        self._path, self._snapshot = path, snapshot
        self._function = _function_of(path, 1 if snapshot is None else 2)

    def writer(self, spark: SparkSession) -> SavepointWriter:
        """What the function returns."""
        from millstream.spark.savepoint_writer import SavepointWriter

        arguments = (spark,) if self._snapshot is None else (spark, self._snapshot)
        try:
            made = self._function(*arguments)
        except MillstreamError:
            raise
        except Exception as error:
            if type(error).__module__.partition(".")[0] in ("pyspark", "py4j"):
                raise
            raise _failed(self._path, error) from error
        if not isinstance(made, SavepointWriter):
            raise RecipeError(f"{self._path}: recipe() must return a SavepointWriter, not {type(made).__name__}")
        return made

    def write_options(self) -> dict[str, Any]:
        """None: a Python recipe sets everything at the writer itself."""
        return {}


def _function_of(path: str, count: int) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    assert spec is not None, "a .py file can be loaded"
    assert spec.loader is not None, "a .py file can be loaded"
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module  # where dataclasses look for their annotations
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _failed(path, error) from error
    _send_by_value(module)
    function = getattr(module, "recipe", None)
    wanted = "recipe(spark)" if count == 1 else "recipe(spark, snapshot)"
    if not callable(function):
        raise RecipeError(f"{path}: has no function {wanted}, which a recipe is")
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError as error:
        raise RecipeError(f"{path}: recipe{inspect.signature(function)} must be {wanted}") from error
    return function  # type: ignore[no-any-return]  # what it returns is checked


def _send_by_value(module: ModuleType) -> None:
    """Functions and classes of a recipe go to Spark's workers as they are: its module is not installed there."""
    import cloudpickle
    from pyspark import cloudpickle as of_spark

    for pickler in (cloudpickle, of_spark):
        pickler.register_pickle_by_value(module)


def _failed(path: str, error: Exception) -> RecipeError:
    """An error of the user's code, with its line in the recipe."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return RecipeError(f"{path}:{error.lineno}: {error.msg}")
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    place = f"{path}:{lines[-1]}" if lines else path
    return RecipeError(f"{place}: {type(error).__name__}: {one_line(error)}")
