"""Every single-file example runs by itself and prints what its code promises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from example_process import EXAMPLES

pytestmark = pytest.mark.process

Start = Callable[..., Any]
TESTED = {
    "word_count.py",
    "inference.py",
    "csv_to_parquet.py",
    "rich_function.py",
    "side_outputs.py",
    "custom_source.py",
    "demo.py",
}


def test_no_example_is_forgotten() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == TESTED


def test_word_count(start_example: Start) -> None:
    lines = start_example("word_count.py").output().splitlines()
    records = sorted(line.split("> ", 1)[1] for line in lines)
    expected = {"the": 6, "mill": 2, "stone": 2, "turns": 2, "stream": 1, "grinds": 1, "grain": 1}
    assert records == sorted(f"({word},{n + 1})" for word, count in expected.items() for n in range(count))


def test_inference(start_example: Start) -> None:
    output = start_example("inference.py").output()
    assert output.startswith("41663 of 200000 measurements are above 0.95; the first is Row(")


def test_csv_to_parquet_by_itself(start_example: Start) -> None:
    output = start_example("csv_to_parquet.py").output()
    assert "'total': 4.5}, {'item': 'rye'" in output
    assert "bran" not in output


def test_csv_to_parquet_with_files(start_example: Start, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("item,quantity,price\nflour,2,1.5\n")
    start_example("csv_to_parquet.py", "in.csv", "out").output()
    assert pq.read_table(tmp_path / "out").to_pylist() == [{"item": "flour", "quantity": 2, "price": 1.5, "total": 3.0}]


def test_rich_function(start_example: Start) -> None:
    lines = start_example("rich_function.py").output().splitlines()
    assert lines[-3:] == ["sold: 10", "quantities: {1: 2, 2: 1, 3: 2}", "unknown items: 1"]
    assert len(lines) == 5 + 3


def test_side_outputs(start_example: Start) -> None:
    lines = start_example("side_outputs.py").output().splitlines()
    assert [line for line in lines if line.startswith("doubled")] == [f"doubled> {n}" for n in (8, 30, 32, 46, 84)]
    assert len([line for line in lines if line.startswith("rejected> not a number")]) == 2


def test_custom_source(start_example: Start) -> None:
    output = start_example("custom_source.py").output()
    assert eval(output) == {"water": 1999000, "wind": 4498500, "steam": 45}
