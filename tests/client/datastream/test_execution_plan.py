from __future__ import annotations

import json

from millstream.core.jobs.plan_json import plan_json
from millstream.datastream import CoMapFunction, StreamExecutionEnvironment


def test_the_execution_plan_is_the_stream_graph_in_flinks_shape(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(2)
    numbers = env.from_collection([1, 2])
    numbers.print()
    numbers.connect(numbers.rebalance()).map(CoMap()).set_description("both").key_by(abs).reduce(max).shuffle().print()
    hash_, second = {"ship_strategy": "HASH", "side": "second"}, {"ship_strategy": "REBALANCE", "side": "second"}
    assert json.loads(env.get_execution_plan()) == {
        "nodes": [
            {
                "id": 1,
                "type": "Source: Collection Source",
                "pact": "Data Source",
                "contents": "Source: Collection Source",
                "parallelism": 1,
            },
            {
                "id": 3,
                "type": "Co-Map",
                "pact": "Operator",
                "contents": "both",
                "parallelism": 2,
                "predecessors": [{"id": 1, **second}, {"id": 1, **second}],
            },
            {
                "id": 4,
                "type": "Keyed Reduce",
                "pact": "Operator",
                "contents": "Keyed Reduce",
                "parallelism": 2,
                "predecessors": [{"id": 3, **hash_}],
            },
            {
                "id": 2,
                "type": "Sink: Print to Std. Out",
                "pact": "Data Sink",
                "contents": "Sink: Print to Std. Out",
                "parallelism": 2,
                "predecessors": [{"id": 1, **second}],
            },
            {
                "id": 5,
                "type": "Sink: Print to Std. Out",
                "pact": "Data Sink",
                "contents": "Sink: Print to Std. Out",
                "parallelism": 2,
                "predecessors": [{"id": 4, "ship_strategy": "SHUFFLE", "side": "second"}],
            },
        ]
    }


def test_a_sink_function_is_a_sink_in_the_plan(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).add_sink(print)
    assert [node["pact"] for node in json.loads(env.get_execution_plan())["nodes"]] == ["Data Source", "Data Sink"]


def test_united_keyed_streams_are_partitioned_first_as_in_pyflinks_plan(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(2)
    numbers, keyed = env.from_collection([1]), env.from_collection([2]).key_by(abs)
    numbers.union(keyed).print()
    keyed.union(numbers).print()
    nodes = {node["id"]: node for node in json.loads(env.get_execution_plan())["nodes"]}
    [first, second] = [node for node in nodes.values() if node["pact"] == "Data Sink"]
    for sink in first, second:
        partitioned = [nodes[p["id"]] for p in sink["predecessors"] if nodes[p["id"]]["pact"] == "Operator"]
        assert [(p["type"], p["parallelism"]) for p in partitioned] == [("_keyed_stream_values_operator", 2)]
        assert [p["ship_strategy"] for p in partitioned[0]["predecessors"]] == ["HASH"]


class CoMap(CoMapFunction):
    def map1(self, value: int) -> int:
        return value

    def map2(self, value: int) -> int:
        return value


def test_the_plan_of_tasks_has_flinks_shape(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(2)
    numbers = env.from_sequence(1, 2)
    numbers.union(numbers.rebalance()).key_by(lambda x: x).reduce(max).name("<b>").print()
    graph = env.generate_job().graph
    plan = plan_json(graph)
    first, second = graph.vertices
    assert set(plan) == {"jid", "name", "type", "nodes"}
    assert (plan["name"], plan["type"], len(plan["jid"])) == ("Millstream Streaming Job", "STREAMING", 32)
    exchange = {"ship_strategy": "HASH", "exchange": "pipelined_bounded", "local_strategy": "", "caching": ""}
    assert plan["nodes"] == [
        {
            "id": first.id,
            "parallelism": 2,
            "operator": "",
            "operator_strategy": "",
            "description": "Source: Sequence Source",
            "optimizer_properties": {},
        },
        {
            "id": second.id,
            "parallelism": 2,
            "operator": "",
            "operator_strategy": "",
            "description": "<b> -> Sink: Print to Std. Out",
            "optimizer_properties": {},
            "inputs": [{"num": 0, "id": first.id, **exchange}, {"num": 1, "id": first.id, **exchange}],
        },
    ]


def test_asking_for_the_plan_changes_nothing(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).print()
    assert json.loads(env.get_execution_plan())["nodes"] == json.loads(env.get_execution_plan())["nodes"]
