"""How a program was run, as the arguments of `millstream run` that run it again from another snapshot."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from millstream.core.settings.secrets import HIDDEN, is_secret, without_secrets

_SNAPSHOT = ("-s", "--fromSavepoint", "-claim", "--claimMode")
"""Options about the snapshot that was started from, each with a value."""


def rerun_arguments(command_line: Sequence[str], program: int) -> str:
    """For a shell: the words behind `run`, of which the last `program` are the program and its own arguments.

    The options for where the state came from are left out, and values of options that hold credentials are hidden.
    """
    words = list(command_line[command_line.index("run") + 1 :]) if "run" in command_line else []
    options, rest = words[: len(words) - program], words[len(words) - program :]
    kept: list[str] = []
    following = iter(options)
    for word in following:
        name, is_joined, _ = word.partition("=")
        if name in _SNAPSHOT:
            if not is_joined:
                next(following, None)
        elif not (word.startswith("-s") and not word.startswith("--")):  # -sPATH
            kept.append(_shown(word))
    return shlex.join([*kept, *rest])


def _shown(word: str) -> str:
    key, is_set, value = word.partition("=")
    name = key.removeprefix("-D")
    return f"{key}={HIDDEN}" if is_set and value and is_secret(name) else without_secrets(word)
