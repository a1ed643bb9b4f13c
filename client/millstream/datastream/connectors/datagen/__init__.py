"""Records made by a function of their index."""

from millstream.datastream.connectors.datagen.datagen import ColumnDataGeneratorSource, DataGeneratorSource

__all__ = [
    "ColumnDataGeneratorSource",
    "DataGeneratorSource",
]
