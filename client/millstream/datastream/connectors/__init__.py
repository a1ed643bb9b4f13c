"""Where records come from and go to, with PyFlink's names."""

from millstream.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
