"""The audit log: who requested what, from where, and with which outcome.

Events go to the logger `millstream.audit`. Where services have a folder for logs, a dispatcher keeps them in a file of
its own there, as lines of JSON, and within the bounds that logs have; REST does not serve that file. Elsewhere they are
lines of the dispatcher's own log. Bodies and parameters of requests are never in it, as they may hold credentials.

A page that stays open sends the same request every few seconds: that is recorded once in a while, or the lines that
matter would soon be rotated away.
"""

from __future__ import annotations

import json
import logging
import math
import time
from datetime import UTC, datetime

from millstream.core.logs.log_files import log_folder, output_files
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.secrets import json_without_secrets
from millstream.dispatcher.callers import Caller

log = logging.getLogger("millstream.audit")
_LONGEST = 500
_STDERR = 2
_LOOKED_AGAIN = 600.0  # seconds after which the same look is recorded again
_MOST_LOOKS = 1000


class Audit:
    """Of one dispatcher. Owned by its loop; closed once."""

    def __init__(self, configuration: Configuration) -> None:
        self._handler: logging.Handler | None = None
        self._looks: dict[tuple[str, ...], float] = {}  # when each was recorded; the latest come last
        folder = log_folder(configuration)
        if folder is not None:
            from millstream.dispatcher.audit_file import AuditFile  # loads much, and `python job.py` has no folder

            own = output_files(folder).get(_STDERR)
            self._handler = AuditFile(folder / f"audit-{own.stem if own else 'dispatcher'}.log", configuration)

    def record(self, action: str, caller: Caller, job: str = "", failure: str = "", request: str = "") -> None:
        """Records a request. `failure` is why it was refused."""
        event = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "action": action,
            "who": caller.name,
            "known by": caller.credential.value,
            "role": caller.role.name.lower(),
            "from": caller.origin,
            "job": job,
            "request": request,
            "outcome": f"refused: {failure}"[:_LONGEST] if failure else "done",
        }
        line = json.dumps(json_without_secrets({key: value for key, value in event.items() if value}))
        if self._handler is None:
            log.info("%s", line)
        else:
            self._handler.handle(log.makeRecord(log.name, logging.INFO, "", 0, line, (), None))

    def record_look(self, action: str, caller: Caller, job: str, failure: str, request: str) -> None:
        """Records a request that only reads."""
        look = (action, caller.name, caller.credential.value, caller.origin.rpartition(":")[0], job, failure, request)
        now = time.monotonic()
        if now - self._looks.get(look, -math.inf) < _LOOKED_AGAIN:
            return
        self._looks.pop(look, None)
        self._looks[look] = now
        if len(self._looks) > _MOST_LOOKS:
            del self._looks[next(iter(self._looks))]
        self.record(action, caller, job, failure, request)

    def close(self) -> None:
        """Ends the file."""
        if self._handler is not None:
            self._handler.close()
