"""The file of the audit log."""

from __future__ import annotations

from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import IO, Any

from millstream.core.files.directories import for_user_only
from millstream.core.logs.log_files import LogBounds
from millstream.core.settings.configuration import Configuration


class AuditFile(RotatingFileHandler):
    """Of the owner alone, also after it was moved aside."""

    def __init__(self, path: Path, configuration: Configuration) -> None:
        bounds = LogBounds.of(configuration)
        super().__init__(path, maxBytes=bounds.size, backupCount=max(bounds.kept, 1), delay=True, encoding="utf-8")

    def _open(self) -> IO[Any]:  # type: ignore[override]  # a text file, as there
        return open(self.baseFilename, self.mode, encoding=self.encoding, opener=for_user_only)
