"""What a program's environment starts from: the configuration files, and what the program runner hands down.

The runner (`millstream run`, REST) passes options and already uploaded artifacts in environment variables, so that the
same program runs by itself, from the command line and from a wheel. Options with credentials come by a descriptor.
"""

from __future__ import annotations

import json
import os
from typing import Any

from millstream.common.configuration import Configuration
from millstream.core.errors import ConfigurationError
from millstream.core.jobs.graph import Artifact, ArtifactKind
from millstream.core.processes.handed_down import handed_down_options
from millstream.core.settings.configuration import Configuration as CoreConfiguration
from millstream.core.settings.options.execution import (
    CHECKPOINTING_DIR,
    CHECKPOINTING_SAVEPOINT_DIR,
    STATE_RECOVERY_PATH,
)
from millstream.core.settings.variables import PROGRAM_ARTIFACTS, PROGRAM_CONFIGURATION

_LOCATIONS = (
    CHECKPOINTING_DIR,
    CHECKPOINTING_SAVEPOINT_DIR,
    STATE_RECOVERY_PATH,
)


def initial_configuration() -> Configuration:
    """`config.yaml`, and over it what the runner set."""
    configuration = Configuration(CoreConfiguration.load())
    options = _read_json(PROGRAM_CONFIGURATION, {})
    if not isinstance(options, dict):
        raise ConfigurationError(f"{PROGRAM_CONFIGURATION}: expected a JSON object of options")
    configuration.add_all(options)
    configuration.add_all(handed_down_options())
    return configuration


def options_of_job(configuration: CoreConfiguration) -> dict[str, str]:
    """The options that a job is sent with. Paths are from the program's folder, as the services work in others."""
    from millstream.core.snapshot.metadata.model import absolute_location

    options = configuration.to_dict()
    return options | {key: absolute_location(options[key]) for key in _LOCATIONS if options.get(key)}


def uploaded_artifacts() -> tuple[Artifact, ...]:
    """What the runner uploaded for this program."""
    entries = _read_json(PROGRAM_ARTIFACTS, [])
    try:
        return tuple(Artifact(entry["sha256"], entry["name"], ArtifactKind[entry["kind"]]) for entry in entries)
    except (KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{PROGRAM_ARTIFACTS}: expected a JSON list of objects with sha256, name and kind ({error!r})"
        ) from error


def _read_json(variable: str, default: Any) -> Any:
    text = os.environ.get(variable)
    if not text:
        return default
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{variable}: not JSON: {error}") from error
