"""Numbers in CSV: laid out as Java does, with the fewest digits that are read back as the same."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.common import Row, Types
from millstream.datastream.formats.csv import CsvRowSerializationSchema
from millstream.datastream.formats.csv.numbers import double_text, float_text


@pytest.mark.parametrize(
    ("value", "double", "single"),
    [
        (1.5, "1.5", "1.5"),
        (1.1, "1.1", "1.1"),
        (100.0, "100.0", "100.0"),
        (-0.0, "-0.0", "-0.0"),
        (0.001, "0.001", "0.001"),
        (-1e-4, "-1.0E-4", "-1.0E-4"),
        (9999999.0, "9999999.0", "9999999.0"),
        (1e7, "1.0E7", "1.0E7"),
        (123456789.125, "1.23456789125E8", "1.2345679E8"),
        (3e38, "3.0E38", "3.0E38"),
        (math.inf, "Infinity", "Infinity"),
        (-math.inf, "-Infinity", "-Infinity"),
        (math.nan, "NaN", "NaN"),
    ],
)
def test_numbers_are_written_as_java_does(value: float, double: str, single: str) -> None:
    assert (double_text(value), float_text(value)) == (double, single)
    for kind, text in ((Types.DOUBLE(), double), (Types.FLOAT(), single)):
        schema = CsvRowSerializationSchema.Builder(Types.ROW([kind])).build()
        assert schema.serialize(Row(value)).decode().strip() == text


@given(st.floats(allow_nan=False))
def test_a_number_of_double_precision_is_read_as_it_was(value: float) -> None:
    assert float(double_text(value)) == value


@given(st.floats(allow_nan=False, width=32))
def test_a_number_of_single_precision_is_read_as_it_was(value: float) -> None:
    import numpy as np

    assert np.float32(float_text(value)) == np.float32(value)


def test_what_is_too_large_for_single_precision_is_reported() -> None:
    schema = CsvRowSerializationSchema.Builder(Types.ROW([Types.FLOAT()])).build()
    with pytest.raises(ValueError, match=r"1e\+39.* too large for single precision"):
        schema.serialize(Row(1e39))
