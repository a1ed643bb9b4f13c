"""Every public name of PyFlink's `common` and `datastream` is here with its parameters, or listed with the reason.

`pyflink_names.txt` holds the names of PyFlink 2.3: a section for each module, what it exports, and a line for each
class or function with its parameters and its members. The reasons are in the tables of the section of
`docs/migrating-from-flink.md` whose first column holds patterns of names.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

NAMES = Path(__file__).with_name("pyflink_names.txt")
PAGE = Path(__file__).parents[2] / "docs" / "migrating-from-flink.md"
SECTION = "## Names of PyFlink's that are not there"
_PART = re.compile(r"(\w+)(?:\(([^)]*)\))?\Z")


@dataclass(frozen=True)
class Name:
    module: str
    path: tuple[str, ...]
    parameters: tuple[str, ...] | None
    """None: it is no function, or any parameters do."""

    def __str__(self) -> str:
        return ".".join((self.module, *self.path))


def _name(module: str, owner: tuple[str, ...], text: str) -> Name:
    match = _PART.match(text)
    assert match is not None, f"{module}: {text}"
    name, parameters = match.groups()
    given = None if parameters is None else tuple(p.rstrip("=") for p in parameters.split(",") if p and p[0] != "*")
    return Name(module, (*owner, name), given)


def names_of_pyflink() -> Iterator[Name]:
    module = ""
    for line in NAMES.read_text().splitlines():
        if line.startswith("["):
            module = line.strip("[]")
        elif line.startswith("export "):
            yield from (Name(module, (name,), None) for name in line.split()[1:])
        else:
            owner, _, members = line.partition(": ")
            yield (first := _name(module, (), owner))
            yield from (_name(module, first.path, member) for member in members.split())


def why_missing(name: Name) -> str | None:
    """What a program that uses the name would find; None: it is there."""
    try:
        target: Any = importlib.import_module(f"millstream.{name.module}")
    except ModuleNotFoundError:
        return "no such module"
    for part in name.path:
        if not hasattr(target, part):
            return None if part in getattr(target, "__annotations__", {}) else "missing"
        target = getattr(target, part)
    return None if name.parameters is None else _parameter_missing(target, name.parameters)


def _parameter_missing(target: Any, parameters: tuple[str, ...]) -> str | None:
    have = inspect.signature(target).parameters
    if any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in have.values()):
        return None
    missing = [parameter for parameter in parameters if parameter not in have]
    return f"no parameter {', '.join(missing)}" if missing else None


def listed_patterns() -> list[str]:
    """The patterns of names in the table, each between backticks."""
    text = PAGE.read_text()
    assert SECTION in text
    rows = [line for line in text.split(SECTION)[1].split("\n## ")[0].splitlines() if line.startswith("| `")]
    return [pattern for row in rows for pattern in re.findall(r"`([^`]+)`", row.split("|")[1])]


def test_every_name_is_there_or_listed_with_its_reason() -> None:
    patterns = listed_patterns()
    missing = {str(name): why for name in names_of_pyflink() if (why := why_missing(name))}
    unlisted = {name: why for name, why in missing.items() if not any(fnmatchcase(name, p) for p in patterns)}
    assert unlisted == {}, f"neither there nor listed in {PAGE.name}"


def test_what_is_listed_is_missing() -> None:
    missing = [str(name) for name in names_of_pyflink() if why_missing(name)]
    stale = [pattern for pattern in listed_patterns() if not any(fnmatchcase(name, pattern) for name in missing)]
    assert stale == [], f"{PAGE.name} lists what is there by now, or what PyFlink does not have"


def test_the_list_is_read_whole() -> None:
    names = set(map(str, names_of_pyflink()))
    assert len(names) > 1150
    assert {"common.Row", "common.types.Row.of_kind", "datastream.functions.MapFunction.map"} <= names
