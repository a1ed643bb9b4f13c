from __future__ import annotations

from typing import Any

import pytest

from millstream.common import Configuration, Row, Types
from millstream.datastream import StreamExecutionEnvironment

pytestmark = pytest.mark.process


@pytest.mark.parametrize("key", [lambda pair: pair[0], 0], ids=["a function", "a field"])
def test_a_keyed_stream_is_collected_with_its_keys_in_the_order_of_the_records(key: Any) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.local.in-process": "true"}))
    env.set_parallelism(2)
    pairs = [("b", 1), ("a", 2), ("b", 3)]
    stream = env.from_collection(pairs, Types.TUPLE([Types.STRING(), Types.INT()]))
    with stream.key_by(key, Types.STRING()).execute_and_collect() as rows:
        assert list(rows) == [Row(f0=pair[0], f1=pair) for pair in pairs]
