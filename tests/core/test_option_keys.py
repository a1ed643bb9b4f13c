"""The keys of options: each is written in the table only, and code reads its value by a typed constant."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import msgspec
import pytest

from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options import (
    OPTIONS,
    OptionKey,
    OptionType,
    execution,
    metrics,
    scheduling,
    services,
    submission,
    tasks,
)

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("core", "client", "dispatcher", "jobmanager", "resourcemanager", "taskmanager")
MODULES = (execution, metrics, scheduling, services, submission, tasks)
KEYS = {value for module in MODULES for value in vars(module).values() if isinstance(value, OptionKey)}
TYPES = {
    OptionType.STRING: str, OptionType.ENUM: str, OptionType.INT: int, OptionType.MEMORY: int, OptionType.BOOL: bool,
    OptionType.FLOAT: float, OptionType.DURATION: float, OptionType.MAP: dict,
}  # fmt: skip


def test_every_option_has_a_constant() -> None:
    assert set(OPTIONS) == KEYS


def test_keys_are_in_the_table_only() -> None:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if "settings" in path.relative_to(ROOT).parts:
                continue
            text = path.read_text()
            if not KEYS & set(re.findall(r"[\w.-]+", text)):  # which is quicker than parsing it
                continue
            constants = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
            found = {value for value in constants if isinstance(value, str)} & KEYS
            assert not found, f"{path.relative_to(ROOT)}: read {found} by constants of settings/options"


@pytest.mark.parametrize("key", sorted(KEYS))
def test_a_default_has_the_type_of_its_constant(key: OptionKey[object]) -> None:
    assert type(Configuration().get(key)) is TYPES[OPTIONS[key].type]


def test_a_key_is_text_elsewhere() -> None:
    key = services.REST_PORT
    assert {key: 1} == {"rest.port": 1}
    assert f"{key}" == "rest.port"
    assert pickle.loads(pickle.dumps(key)) == "rest.port"
    assert msgspec.json.decode(msgspec.json.encode({key: 1})) == {"rest.port": 1}
    configuration = Configuration({key: 7})
    assert configuration.get(key) == 7
    assert [type(name) for name in configuration.to_dict()] == [str]
