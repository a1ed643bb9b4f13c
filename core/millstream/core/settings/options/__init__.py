"""All options of Millstream: key, type, default, description. The documentation is generated from this table.

Keys, meanings and value syntax are Flink's wherever Flink has the option; a default that differs is marked.
"""

from millstream.core.settings.options.model import JobMay, Option, OptionType
from millstream.core.settings.options.table import OPTIONS

__all__ = ["OPTIONS", "JobMay", "Option", "OptionType"]
