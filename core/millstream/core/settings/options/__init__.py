"""All options of Millstream: key, type, default, description. The documentation is generated from this table.

Keys, meanings and value syntax are Flink's wherever Flink has the option; a default that differs is marked. Each option
is a constant of one of the modules here, with which code reads its value: `configuration.get(CHECKPOINTING_INTERVAL)`
is a number of seconds, as the type of the constant says.
"""

from millstream.core.settings.options.model import JobMay, Option, OptionKey, OptionType
from millstream.core.settings.options.table import OPTIONS

__all__ = ["OPTIONS", "JobMay", "Option", "OptionKey", "OptionType"]
