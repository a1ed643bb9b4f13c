from __future__ import annotations

import json

from millstream.core.jobs.plan_json import plan_json
from millstream.datastream import StreamExecutionEnvironment


def test_the_plan_has_flinks_shape(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(2)
    numbers = env.from_sequence(1, 2)
    numbers.union(numbers.rebalance()).key_by(lambda x: x).reduce(max).name("<b>").print()
    plan = json.loads(env.get_execution_plan())
    graph = env.generate_job().graph
    first, second = graph.vertices
    assert set(plan) == {"jid", "name", "type", "nodes"}
    assert (plan["name"], plan["type"], len(plan["jid"])) == ("Millstream Streaming Job", "STREAMING", 32)
    exchange = {"ship_strategy": "HASH", "exchange": "pipelined_bounded"}
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
    assert plan_json(graph)["nodes"] == plan["nodes"]


def test_asking_for_the_plan_changes_nothing(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).print()
    assert json.loads(env.get_execution_plan())["nodes"] == json.loads(env.get_execution_plan())["nodes"]
