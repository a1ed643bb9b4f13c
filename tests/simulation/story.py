"""What happened in a run, in order; and of that, what concerns one job, task or checkpoint.

Nothing is written out while the run goes well: events are kept as objects, which become text when the story is printed.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from parcels import Parcel
from virtual_calls import Call

from millstream.core.jobs.details import JobDetails
from millstream.core.messages.dispatcher import JobList
from millstream.core.messages.resource_manager import Overview
from millstream.core.messages.session import Empty, Heartbeat
from millstream.core.wire import contracts
from millstream.core.wire.contract import SessionContract

LONGEST_LINE = 300
MOST_TIMES = 3  # that the same line is printed
_SESSIONS: dict[str, SessionContract[Any, Any]] = {
    f"/{contract.service.full_name}/{contract.method}": contract
    for contract in vars(contracts).values()
    if isinstance(contract, SessionContract)
}
_DULL = (Heartbeat, Empty, JobList, Overview)
"""Left out of stories: signs of life, and responses to the client's regular requests."""
_ID = re.compile(r"[0-9a-f]{32}|(?<=:\d{5}-)[0-9a-f]{6}\b")  # of anything, and the end of a task manager's
_IDS = re.compile(r"(?:allocation_id|attempt_id)='([^']+)'|attempt_ids=\(([^)]*)\)")


class Violation(AssertionError):
    """An invariant does not hold. `about` are the ids or names whose story shows how it came about."""

    def __init__(self, message: str, *about: object) -> None:
        super().__init__(message)
        self.about = tuple(str(subject) for subject in about if subject)


def must(holds: object, message: str, *about: object) -> None:
    """Raises a Violation unless it holds."""
    if not holds:
        raise Violation(message, *about)


@dataclass(frozen=True, slots=True)
class Message:
    """One that was sent."""

    raw: bytes
    call: Call
    up: bool

    def content(self) -> Any:
        if type(self.raw) is Parcel:
            return self.raw.message
        contract = _SESSIONS.get(self.call.path)
        return self.call.path if contract is None else (contract.up if self.up else contract.down).from_bytes(self.raw)

    def __str__(self) -> str:
        client, server = self.call.client.process.name, self.call.server.process.name
        said = self.content()
        if isinstance(said, JobDetails):
            said = f"JobDetails({said.job_id} is {said.state}, restarts={said.restarts}, message={said.message!r})"
        return f"{client} -> {server}: {said}" if self.up else f"{server} -> {client}: {said}"


@dataclass(frozen=True, slots=True)
class Fault:
    """What was made to go wrong: part of every story."""

    what: str

    def __str__(self) -> str:
        return f"*** {self.what}"


class Story:
    """Of one run."""

    def __init__(self) -> None:
        self._events: list[tuple[float, object]] = []

    def tell(self, time: float, event: object) -> None:
        self._events.append((time, event))

    def forget(self) -> None:
        """The run went well. Most of what it leaves behind hangs on this, and need not be collected as garbage."""
        self._events.clear()

    def digest(self) -> str:
        """Equal for equal runs. Ids are random, and count only by their kind: nothing may depend on their order."""
        digest = hashlib.blake2b(digest_size=8)
        for time, event in self._events:
            told = _shape(event) if isinstance(event, Message) else _ID.sub("", str(event))
            digest.update(f"{time} {told}\n".encode())
        return digest.hexdigest()

    def of(self, subjects: tuple[str, ...], lines: int | None = None) -> str:
        """What concerns these; all that happened when there are none. The last lines, or all of them."""
        texts = [(time, str(event), event) for time, event in self._events if not _is_dull(event)]
        wanted = set(subjects)
        for _, text, _ in texts:  # a job's slots and attempts are known from what names both
            if any(subject in text for subject in subjects):
                for one, several in _IDS.findall(text):
                    wanted |= {one, *re.findall(r"'([^']+)'", several)} - {""}
        told: list[str] = []
        times: Counter[str] = Counter()
        for time, text, event in texts:
            if not wanted or isinstance(event, Fault) or any(subject in text for subject in wanted):
                times[text] += 1
                if times[text] <= MOST_TIMES:
                    more = ", and again" if times[text] == MOST_TIMES else ""
                    told.append(f"{time:9.3f} {text[:LONGEST_LINE]}{more}")
        left_out = f"({len(told) - lines} lines before)\n" if lines and len(told) > lines else ""
        return left_out + "\n".join(told[-(lines or 0) :])


def _is_dull(event: object) -> bool:
    return isinstance(event, Message) and isinstance(event.content(), _DULL)


def _shape(message: Message) -> str:
    call = message.call
    kind = type(message.content()).__name__
    return f"{call.path} {call.client.process.name} {call.server.process.name} {message.up} {kind}"
