"""`millstream run --dry-run -s`: how a snapshot fits a program, before anything starts.

The program runs in its own process and environment up to its first job; there, its operators are built and their
functions opened, to learn which states they declare. Nothing is submitted. All files of the snapshot are checked, as
the job's tasks would.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from millstream.cli.programs.program_process import prepare_environment, write_plan
from millstream.cli.programs.program_source import ProgramSource
from millstream.cli.progress import progress_on_terminal
from millstream.cli.state.listing import scaling
from millstream.cli.tables import print_table
from millstream.core.errors import InvalidProgramError
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import STATE_RECOVERY_IGNORE_UNCLAIMED_STATE, STATE_RECOVERY_PATH
from millstream.core.settings.variables import STATES_FILE, VERBOSE
from millstream.core.snapshot.errors import SnapshotError
from millstream.core.snapshot.fitting.fit import (
    Fit,
    OperatorFit,
    OperatorMatch,
    ProgramOperator,
    StateFit,
    StateMatch,
    fit,
)
from millstream.core.snapshot.inspection.listing_json import declaration_json, header
from millstream.core.snapshot.inspection.opened import OpenedSnapshot, open_snapshot
from millstream.core.snapshot.inspection.verify import verify_snapshot
from millstream.core.snapshot.metadata.program_json import program_from_json
from millstream.core.snapshot.tables.exactness import inexact_values

_RESULTS = {
    StateMatch.NEW: "new: starts empty",
    StateMatch.UNCLAIMED: "missing in the program",
    StateMatch.KEPT: "kept",
}


def compare_with_snapshot(
    source: ProgramSource, configuration: Configuration, scratch: Path, as_json: bool, verbose: bool
) -> int:
    """Prints the comparison. Returns the exit status: 0 when a restore works, 1 when not."""
    pointer = configuration.get(STATE_RECOVERY_PATH)
    if not pointer:
        raise click.UsageError("--dry-run compares the program with a snapshot: name it with -s")
    snapshot = open_snapshot(pointer)
    program, status = _declared(source, configuration, scratch, verbose)
    if status != 0:
        return status
    allowed = configuration.get(STATE_RECOVERY_IGNORE_UNCLAIMED_STATE)
    found = fit(snapshot.metadata, program, allowed)
    damage = _damage(snapshot, found, verbose)
    if as_json:
        click.echo(json.dumps(_fit_json(snapshot, found, damage), indent=2))
    else:
        _print(snapshot, found, damage, allowed)
    return 0 if found.restorable and not damage else 1


def _damage(snapshot: OpenedSnapshot, found: Fit, verbose: bool) -> list[str]:
    """What is wrong with the files, or with values that the program would read as another type."""
    with progress_on_terminal(verbose) as progress:
        progress(f"checking the files of {snapshot.location}")
        try:
            verify_snapshot(snapshot.storage, snapshot.location)
            return inexact_values(snapshot, found)
        except SnapshotError as error:
            return [str(error)]


def _declared(
    source: ProgramSource, configuration: Configuration, scratch: Path, verbose: bool
) -> tuple[tuple[ProgramOperator, ...], int]:
    """What the program declares, and the exit status of its process, which has printed what went wrong."""
    with progress_on_terminal(verbose) as progress:
        environment, artifacts = asyncio.run(prepare_environment(source.files, configuration, progress))
    plan, states = scratch / "plan", scratch / "states.json"
    more = {STATES_FILE: str(states), **({VERBOSE: "1"} if verbose else {})}
    status = write_plan(environment, source, configuration, artifacts, plan, more)
    if status != 0:
        return (), status
    if not plan.exists():
        raise InvalidProgramError("the program built no job: it never called execute()")
    if not states.exists():
        raise InvalidProgramError("the program's process ended while its functions were opened")
    return program_from_json(states.read_bytes(), "the program"), 0


def _print(snapshot: OpenedSnapshot, found: Fit, damage: list[str], allowed: bool) -> None:
    metadata = snapshot.metadata
    click.echo(f"{metadata.kind.value} {snapshot.location}")
    click.echo(f"job {metadata.job_id} ({metadata.job_name}), checkpoint {metadata.checkpoint_id}")
    click.echo()
    rows = [row for operator in found.operators for row in _rows(operator)]
    print_table(["OPERATOR", "STATE", "RESULT", "DETAILS"], rows)
    click.echo()
    for warning in found.warnings:
        click.echo(f"Warning: {warning}")
    if found.restorable and not damage:
        click.echo("A restore works.")
        return
    is_clear = found.problems or damage
    click.echo("A restore does not work:" if is_clear else "Whether a restore works is not known:")
    for problem in (*damage, *found.problems, *found.unknown):
        click.echo(f"  {problem}")
    if not allowed and found.leaves_state:
        click.echo("  (-n leaves behind what the program does not take over)")


def _rows(operator: OperatorFit) -> list[list[str]]:
    name = operator.operator.uid or operator.operator.name
    result = {OperatorMatch.NEW: "new", OperatorMatch.UNCLAIMED: "missing in the program"}.get(operator.match)
    rows = [[name, "", result or "matched", scaling(operator.stored, operator.declared)]]
    for state in operator.states:
        kind = state.declared or state.stored
        assert kind is not None, "a state is on one side at least"
        rows.append(
            [name, f"{state.name} ({kind.kind.value})", _RESULTS.get(state.match, state.match.value), state.message]
        )
    return rows


def _fit_json(snapshot: OpenedSnapshot, found: Fit, damage: list[str]) -> dict[str, Any]:
    return {
        "snapshot": header(snapshot),
        "restorable": found.restorable and not damage,
        "problems": [*damage, *found.problems],
        "warnings": list(found.warnings),
        "unknown": list(found.unknown),
        "operators": [_operator_json(operator) for operator in found.operators],
    }


def _operator_json(operator: OperatorFit) -> dict[str, Any]:
    sides = {"stored": operator.stored, "declared": operator.declared}
    return {
        "uid": operator.operator.uid,
        "id": operator.operator.operator_id,
        "name": operator.operator.name,
        "match": operator.match.value,
        **{f"{what}_parallelism": side.parallelism if side else None for what, side in sides.items()},
        **{f"{what}_max_parallelism": side.max_parallelism if side else None for what, side in sides.items()},
        "problems": list(operator.problems),
        "unknown": operator.unknown or None,
        "states": [_state_json(state) for state in operator.states],
    }


def _state_json(state: StateFit) -> dict[str, Any]:
    return {
        "name": state.name,
        "match": state.match.value,
        "stored": declaration_json(state.stored) if state.stored is not None else None,
        "declared": declaration_json(state.declared) if state.declared is not None else None,
        "message": state.message,
        "warnings": list(state.warnings),
    }
