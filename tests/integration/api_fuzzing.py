"""Requests that Schemathesis makes of an OpenAPI document, sent to the API that publishes it, and what is wrong with
the answers.

The same requests each time: examples are derandomized and bounded. Where a request fits the document, its path is led
to something that exists, so that not every answer is a 404.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import schemathesis
from schemathesis.core.parameters import ParameterLocation
from schemathesis.engine import events, from_schema
from schemathesis.hooks import GLOBAL_HOOK_DISPATCHER

_RUNS_A_PROGRAM = "^/jars/.*/(run|plan)$"
_SLOW = 60  # seconds; an answer that takes longer counts as a hang

Existing = Callable[[str, str], list[str]]
"""Of an operation (`GET /jobs/{jobid}`) and a path parameter of it: ids that exist."""


@dataclass
class Answers:
    """What came of all requests: `statuses` counts by operation, `faults` are readable, one for each kind of it."""

    statuses: dict[str, Counter[int]] = field(default_factory=dict)
    faults: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def requests(self) -> int:
        return sum(counts.total() for counts in self.statuses.values())

    def take(self, event: events.EngineEvent) -> None:
        if isinstance(event, events.ScenarioFinished):
            self._take_scenario(event.recorder)
        elif isinstance(event, events.NonFatalError):
            self.faults[event.label, "error"] = str(event.value)
        elif isinstance(event, events.FatalError):
            raise event.exception

    def _take_scenario(self, recorder: Any) -> None:
        for case_id, interaction in recorder.interactions.items():
            label = recorder.cases[case_id].value.operation.label
            status = interaction.response.status_code if interaction.response is not None else 0
            self.statuses.setdefault(label, Counter())[status] += 1
        for case_id, checks in recorder.checks.items():
            for check in checks:
                if check.failure_info is not None:
                    label = recorder.cases[case_id].value.operation.label
                    self.faults.setdefault((label, check.name), _told(check, recorder.interactions.get(case_id)))


def _told(check: Any, interaction: Any) -> str:
    failure = check.failure_info.failure
    told = f"{failure.title}: {failure.message}"
    if interaction is not None:
        told += f"\n  {interaction.request.method} {interaction.request.uri}\n  {interaction.request.body!r:.500}"
        if interaction.response is not None:
            told += f"\n  {interaction.response.status_code} {interaction.response.content!r:.500}"
    return told


def ask(
    url: str,
    document: dict[str, Any],
    existing: Existing,
    *,
    spared: Collection[str],
    headers: Mapping[str, str],
    examples: int,
    folder: str,
    edges: bool = True,
) -> Answers:
    """Sends as many examples of each operation, after all cases at the edges of the document unless those are left out.

    Ids that are spared are named only where they are among those that exist for the operation. Directories that
    requests name are led into the folder.
    """
    schema = schemathesis.openapi.from_dict(document, config=_configuration(url, headers, examples, edges))
    schema = schema.exclude(path_regex="^/wheels|^/updates$")  # another name for /jars, and a stream that does not end
    answers = Answers()
    with _leading_to(existing, spared, folder):
        for event in from_schema(schema).execute():
            answers.take(event)
    return answers


def _configuration(url: str, headers: Mapping[str, str], examples: int, edges: bool) -> schemathesis.Config:
    refused_by_meaning = {
        "positive_data_acceptance": {"enabled": False}
    }  # options, programs, vertices that there are not
    return schemathesis.Config.from_dict({
        "base-url": url,
        "headers": dict(headers),
        "request-timeout": _SLOW,
        "continue-on-failure": True,
        "generation": {"deterministic": True, "max-examples": examples, "no-shrink": True, "database": "none"},
        "phases": {
            "examples": {"enabled": True},
            "coverage": {"enabled": edges, "unexpected-methods": ["PUT"]},
            "fuzzing": {"enabled": True},
            "stateful": {"enabled": edges, "max-steps": 6},
        },
        "operations": [
            {
                "include-path-regex": _RUNS_A_PROGRAM,  # half a second each, where the request is right
                "generation": {"mode": "negative"},
                "checks": refused_by_meaning,
            },
            {"include-path-regex": "^/jars/upload$|/resource-requirements$", "checks": refused_by_meaning},
        ],
    })  # fmt: skip


@contextmanager
def _leading_to(existing: Existing, spared: Collection[str], folder: str) -> Iterator[None]:
    turns = Counter[str]()  # of each operation, so that none depends on which others there are

    def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
        wrong = case.meta is not None and case.meta.is_negative_at(ParameterLocation.PATH)
        turns[case.operation.label] += 1
        turn = turns[case.operation.label]
        for name in [] if wrong else list(case.path_parameters or {}):
            known = existing(case.operation.label, name)
            # A quarter stays as it was made, unless it was made of an answer, and may not be asked for here.
            if known and (
                turn % 4 or (case.path_parameters[name] in spared and case.path_parameters[name] not in known)
            ):
                case.path_parameters[name] = known[turn // 4 % len(known)]
        if isinstance(case.body, dict):
            for name in ("target-directory", "targetDirectory"):
                if isinstance(case.body.get(name), str) and case.body[name].startswith(("/", "file:")):
                    case.body[name] = folder

    GLOBAL_HOOK_DISPATCHER.register_hook_with_name(before_call, "before_call")
    try:
        yield
    finally:
        GLOBAL_HOOK_DISPATCHER.unregister(before_call)
