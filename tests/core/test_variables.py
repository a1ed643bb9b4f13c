"""The environment variables: each is named in the table only, and read or set by its constant."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from millstream.core.settings import variables
from millstream.core.settings.variables import VARIABLES

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(variables.__file__)
PACKAGES = ("core", "client", "dispatcher", "jobmanager", "resourcemanager", "taskmanager", "spark")


def test_names_are_in_the_table_only() -> None:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            if path == TABLE or "MILLSTREAM_" not in text:
                continue
            named = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
            written = [text for text in named if isinstance(text, str) and re.fullmatch(r"MILLSTREAM_[A-Z_]+", text)]
            assert not written, f"{path.relative_to(ROOT)}: use the constants of {TABLE.name}"


def test_every_variable_has_a_constant_that_code_uses() -> None:
    values = {name: value for name, value in vars(variables).items() if isinstance(value, str)}
    constants = {name: value for name, value in values.items() if value in VARIABLES}
    assert set(constants.values()) == set(VARIABLES)
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path != TABLE]
    code = "\n".join(path.read_text() for path in files)
    used = set(re.findall(r"\w+", code))
    for name in constants:
        assert name in used, name
