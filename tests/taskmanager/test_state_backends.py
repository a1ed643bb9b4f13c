"""The state backends that `state.backend.type` chooses from."""

from __future__ import annotations

import pytest

from millstream.core.configuration import Configuration
from millstream.core.errors import ConfigurationError
from millstream.core.options import OPTIONS
from millstream.taskmanager.task_factory import STATE_BACKENDS


def test_there_is_one_for_each_value_of_the_option() -> None:
    assert set(STATE_BACKENDS) == set(OPTIONS["state.backend.type"].choices)


def test_an_unknown_one_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"state\.backend\.type.*hashmap"):
        Configuration({"state.backend.type": "shelf"}).string("state.backend.type")
