"""Hadoop's configuration, which PyFlink's formats of columns take: there is no Hadoop here to configure."""

from __future__ import annotations

from typing import Any

from millstream.core.errors import InvalidProgramError


def refuse_hadoop(hadoop_config: Any) -> None:
    """An empty configuration sets nothing; any other would be ignored, and so is refused."""
    options = hadoop_config.to_dict() if hasattr(hadoop_config, "to_dict") else hadoop_config
    if options:
        raise InvalidProgramError(
            f"hadoop_config: files are read and written by Arrow, which has no use for {', '.join(map(str, options))}"
        )
