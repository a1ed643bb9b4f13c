"""The steps of a recipe: their names and their fields. Pure.

A step is named as the method of `SavepointWriter` that it calls, and its fields are that method's parameters, but for
`operator`, `state` and `from`: the operator's uid, the state's name, and the table that rows come from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct

from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import parse_duration
from millstream.spark.recipes.document import RecipeNode, did_you_mean
from millstream.spark.recipes.type_names import type_of

Parse = Callable[[RecipeNode], Any]


def _text(node: RecipeNode) -> str:
    return node.text()


def _columns(node: RecipeNode) -> str | list[str]:
    names = node.texts()
    return names[0] if len(names) == 1 and not node.is_list else names


def _duration(node: RecipeNode) -> timedelta:
    try:
        return timedelta(seconds=parse_duration(node.text()))
    except (ConfigurationError, ValueError) as error:
        raise node.error(f"must be a duration such as 30 d or 10 min: {error}") from error


def _flag(node: RecipeNode) -> bool:
    return node.flag()


def _one_of(*known: str) -> Parse:
    return lambda node: node.choice(*known)


class _Form(Struct, frozen=True):
    """The fields of a step, and whether it adds rows, which come from a table."""

    required: Mapping[str, Parse]
    optional: Mapping[str, Parse] = {}
    rows: bool = False


_OPERATOR: Mapping[str, Parse] = {"operator": _text}
_STATE: Mapping[str, Parse] = {**_OPERATOR, "state": _text}
_TYPES: Mapping[str, Parse] = {"key_type": type_of, "value_type": type_of, "map_key_type": type_of}
_DOMAIN = _one_of("event", "processing")

STEPS: Mapping[str, _Form] = {
    "with_keyed_state": _Form(
        {**_STATE, "key": _columns, "value": _columns},
        {
            "kind": _one_of("value", "list", "map", "reducing", "aggregating"), "map_key": _columns, "position": _text,
            **_TYPES, "ttl": _duration, "expires_at": _text,
            "on_conflict": _one_of("existing", "new", "both", "error"),
        },
        rows=True,
    ),
    "with_operator_state": _Form({**_STATE, "value": _columns}, {"value_type": type_of, "union": _flag}, rows=True),
    "with_broadcast_state": _Form(
        {**_STATE, "key": _columns, "value": _columns}, {"key_type": type_of, "value_type": type_of}, rows=True
    ),
    "with_timers": _Form(
        {**_OPERATOR, "key": _columns, "timestamp": _text}, {"domain": _DOMAIN, "key_type": type_of}, rows=True
    ),
    "with_window_state": _Form(
        {**_OPERATOR, "key": _columns, "value": _columns, "start": _text, "end": _text},
        {
            "kind": _one_of("reducing", "aggregating", "list"), "position": _text, "key_type": type_of,
            "value_type": type_of, "state": _text, "domain": _DOMAIN, "allowed_lateness": _duration,
        },
        rows=True,
    ),
    "with_source_positions": _Form({**_OPERATOR, "files_read": _text}, rows=True),
    "remove_operator": _Form(_OPERATOR),
    "change_operator_identifier": _Form({**_OPERATOR, "to": _text}),
    "remove_state": _Form(_STATE),
    "rename_state": _Form({**_STATE, "to": _text}),
    "transform_state": _Form({**_STATE, "sql": _text}, _TYPES),
    "filter_keys": _Form({**_OPERATOR, "where": _text}),
    "declare_state": _Form(_STATE, _TYPES),
    "compact": _Form({}, {"operator": _text, "state": _text}),
}  # fmt: skip


class Step(Struct, frozen=True):
    """One step: the fields that were given, and the one that gives the origin of the rows."""

    name: str
    fields: Mapping[str, Any]
    node: RecipeNode
    rows: RecipeNode | None = None
    rows_are_sql: bool = False


def steps_of(node: RecipeNode, *, adding_only: bool) -> list[Step]:
    """The section `steps`, in its order."""
    return [_step(item, adding_only) for item in node.items()]


def _step(item: RecipeNode, adding_only: bool) -> Step:
    named = list(item.entries().items())
    if len(named) != 1:
        raise item.error(f"must be one step, as in - remove_state: {{...}}, and has {len(named)} names")
    name, node = named[0]
    known = [step for step, form in STEPS.items() if form.rows or not adding_only]
    if name in STEPS and name not in known:
        raise node.error("changes what is there: that is a step of `millstream state rewrite`")
    if name not in known:
        raise node.error(f"is not a step{did_you_mean(name, known)}")
    form = STEPS[name]
    given = node.fields(*form.required, optional=(*form.optional, *(("from", "sql") if form.rows else ())))
    rows = [(field, given.pop(field)) for field in ("from", "sql") if form.rows and field in given]
    if form.rows and len(rows) != 1:
        raise node.error("needs rows: either 'from', the name of a table, or 'sql'")
    parsers = {**form.required, **form.optional}
    fields = {field: parsers[field](value) for field, value in given.items()}
    return Step(name, fields, node, rows[0][1] if rows else None, bool(rows) and rows[0][0] == "sql")
