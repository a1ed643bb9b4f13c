"""Number sequences at PyFlink's path."""

from millstream.datastream.connectors.number_sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
