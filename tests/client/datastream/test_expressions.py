"""Expressions in programs: what they make of a stream's type, how they are chained and shipped, what is refused."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from program_graphs import chain_of, graph_of, names

from millstream.common import Types
from millstream.core.errors import InvalidProgramError
from millstream.core.expressions import resolve, written
from millstream.core.jobs.plan.calc_plan import CalcSpec
from millstream.core.records.schema import Schema, from_type_information
from millstream.datastream import DataStream, StreamExecutionEnvironment
from millstream.datastream.expressions import Expression, coalesce, col, if_then_else, lit, row

PURCHASE = Types.ROW_NAMED(
    ["user", "amount", "price", "paid", "seen", "total", "tags", "extra"],
    [Types.STRING(), Types.LONG(), Types.FLOAT(), Types.BOOLEAN(), Types.SQL_TIMESTAMP(), Types.BIG_DEC(),
     Types.LIST(Types.STRING()), Types.PICKLED_BYTE_ARRAY()],
)  # fmt: skip
COLUMNS = (
    r"the columns user \(String\), amount \(Long\), price \(Float\), paid \(Boolean\), seen \(Timestamp\), "
    r"total \(BigDecimal\), tags \(List<String>\), extra \(PickledByteArray\)"
)
DAY = datetime.timedelta(days=1)


@dataclass
class Reading:
    sensor: str
    value: float


def purchases(kind: Any = PURCHASE) -> DataStream[Any]:
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_sequence(1, 10).map(lambda x: x, output_type=kind)


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        (col("amount") + 1, "Long"),
        (col("amount") / 2, "Double"),
        (col("price") * 2, "Double"),
        (col("price"), "Float"),
        (col("total") + col("amount"), "BigDecimal"),
        (1 - col("amount") % 3 // 2, "Long"),
        (-col("total"), "BigDecimal"),
        (abs(col("price")), "Double"),
        (col("amount") > 1.5, "Boolean"),
        ((col("paid") | (col("amount") == 0)) & ~col("paid"), "Boolean"),
        (col("user") + "!", "String"),
        (col("user").char_length, "Integer"),
        (col("user").upper_case, "String"),
        (col("seen") + DAY, "Timestamp"),
        (col("seen") - col("seen") > DAY, "Boolean"),
        (col("tags"), "List<String>"),
        (col("amount").cast(str), "String"),
        (col("amount").cast(Types.INT()), "Integer"),
        (coalesce(col("price"), col("amount"), 0), "Double"),
        (if_then_else(col("paid"), col("user"), None), "String"),
        (col("user").in_("ann", None), "Boolean"),
        (col("total") < Decimal("1.5"), "Boolean"),
        (lit(3), "Long"),
    ],
)
def test_the_type_of_a_map_is_that_of_its_expression(expression: Expression, kind: str) -> None:
    assert purchases().map(expression).get_type().describe() == kind


def test_a_row_of_expressions_has_their_names_and_types() -> None:
    found = purchases().map(row(col("user"), (col("amount") * 2).alias("twice"), col("tags").alias("labels")))
    assert found.get_type().describe() == "Row(user: String, twice: Long, labels: List<String>)"


def test_a_filter_keeps_the_type_of_its_stream() -> None:
    assert purchases(Reading).filter(col("value") > 1).get_type() == purchases(Reading).get_type()
    assert purchases(tuple[str, int]).filter(col("f1") > 1).get_type().describe() == "Tuple2<String, Long>"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.filter(col("amuont") > 1), rf"filter: there is no column 'amuont'; the stream has {COLUMNS}"),
        (lambda s: s.filter(col("user") > 1), r"filter: col\('user'\) > 1: STRING cannot be compared with BIGINT"),
        (lambda s: s.filter(col("amount")), r"filter: col\('amount'\) is of type BIGINT and no condition; compare it"),
        (lambda s: s.filter(col("amount") & col("paid")),
         r"filter: col\('amount'\) & col\('paid'\): it takes conditions, and not BIGINT"),
        (lambda s: s.map(col("user") * 2), r"map: col\('user'\) \* 2: STRING and BIGINT are of no types that it takes"),
        (lambda s: s.map(col("total") * 1.5), r"DECIMAL\(38, 18\) and DOUBLE are of no types that it takes: num"),
        (lambda s: s.map(col("total") / 2), r"decimals can be cast to Types.DOUBLE\(\)"),
        (lambda s: s.map(col("price") % 2), r"map: col\('price'\) % 2: FLOAT and BIGINT .* it takes: integers"),
        (lambda s: s.map(col("extra")), "column 'extra' is of type PickledByteArray, of which there are no col"),
        (lambda s: s.map(col("seen") - col("seen")),
         r"map: col\('seen'\) - col\('seen'\) is of type INTERVAL .*, of which there are no columns"),
        (lambda s: s.map(lit(None)), "map: None is of type NULL, of which there are no columns"),
        (lambda s: s.map(col("user").cast(int)), r"map: col\('user'\).cast\(BIGINT\): STRING cannot be converted"),
        (lambda s: s.map(col("user").starts_with(col("user"))), "it looks for a constant text"),
        (lambda s: s.filter(col("tags") == col("tags")), "ARRAY<STRING> cannot be compared with ARRAY<STRING>"),
        (lambda s: s.map(if_then_else(col("paid"), 1, "a")), "BIGINT and STRING are no values of one type; cast them"),
        (lambda s: s.map(col("amount"), int), "map: an expression has its own type; leave output_type out"),
        (lambda s: s.map(row(col("user"), col("amount").alias("user"))), "row: there are two columns 'user'"),
        (lambda s: s.map(row(col("amount") + 1)), "row: a column that is computed needs a name"),
        (lambda s: s.map(row()), "row: name at least one column"),
        (lambda s: s.filter(row(col("paid"))), "filter: a row is no condition; give a single expression"),
        (lambda s: s.map(row("user")), r"row: expected expressions, such as col\('user'\), got 'user'"),
        (lambda s: col(""), "col: expected the name of a column, got ''"),
        (lambda s: col("user").alias(""), "alias: expected the name of a column, got ''"),
        (lambda s: col("user").in_(), "in_: name at least one value"),
        (lambda s: col("user").in_(col("user")), "in_: its values are constants"),
        (lambda s: col("user").in_("a", 1), "are of several types; give those of one"),
        (lambda s: col("user") == ["a"], r"\['a'\] is no single value; in_\(...\) looks for one of several"),
        (lambda s: col("amount") > 1j, "1j is a complex, and constants of expressions are"),
        (lambda s: col("amount") > 1 << 63, "9223372036854775808 does not fit 64 bits"),
        (lambda s: col("amount").cast(object), "cast: <class 'object'> is no type of a column"),
        (lambda s: coalesce(), "coalesce: name at least one value"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_while_the_job_is_built(build: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        build(purchases())


def test_a_stream_without_names_has_no_columns() -> None:
    with pytest.raises(InvalidProgramError, match="filter: an expression needs a stream whose type names its fields"):
        purchases(int).filter(col("amount") > 1)


def test_an_expression_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match=r"join conditions with &, \| and ~"):
        bool(col("amount") > 1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(col("amount"))


def test_expressions_are_chained_and_shipped_with_the_job() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([("a", 1)], tuple[str, int]).name("s")
    stream.filter(col("f1") > 0).map(row(col("f0"), (col("f1") * 2).alias("twice"))).print()
    graph = graph_of(env)
    assert names(graph) == ["Source: s -> Filter -> Map -> Sink: Print to Std. Out"]
    specs = [chained.spec for chained in chain_of(graph.vertices[0]).operators[1:3]]
    assert [spec.kind for spec in specs] == ["filter", "map"]
    first, second = specs
    assert isinstance(first, CalcSpec)
    assert isinstance(second, CalcSpec)
    assert first.condition is not None
    assert second.columns is not None
    assert (written(first.condition), [written(column) for _, column in second.columns]) == (
        "col('f1') > 0", ["col('f0')", "col('f1') * 2"],
    )  # fmt: skip


def test_an_expression_in_place_of_a_function_leaves_the_ids_of_operators() -> None:
    def ids(condition: Any) -> list[str]:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection([("a", 1)], tuple[str, int]).filter(condition).map(lambda pair: pair).print()
        return [operator.id for operator in graph_of(env).vertices[0].operators]

    assert ids(col("f1") > 0) == ids(lambda pair: pair[1] > 0)


def test_what_is_resolved_stays_as_it_is() -> None:
    schema = Schema.of_row(from_type_information(PURCHASE))  # type: ignore[arg-type]  # of a row type
    for expression in (col("amount") > 1.5, coalesce(col("price"), 0), col("user").in_("a"), col("amount").cast(str)):
        once = resolve(expression.node, schema)
        assert resolve(once, schema) == once
        assert hash(once) == hash(resolve(expression.node, schema))


def test_functions_are_registered_by_name() -> None:
    from millstream.core.expressions import ExpressionError, Function, function_named, register

    class Other(Function):
        name = "add"

        def signature(self, arguments: Any) -> Any:
            raise NotImplementedError

        def evaluate(self, arguments: Any) -> Any:
            raise NotImplementedError

    with pytest.raises(ExpressionError, match="there is a function 'add' already, of the class Add"):
        register(Other())
    with pytest.raises(ExpressionError, match="there is no function 'median'"):
        function_named("median")

