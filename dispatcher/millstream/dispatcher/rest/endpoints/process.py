"""REST endpoints about the process that responds: its options, and the Python that it runs on.

Flink's names for them are its job manager's, in whose process its REST API is.
"""

from __future__ import annotations

import asyncio
import platform
import sys
from functools import cache
from importlib.metadata import distributions

from starlette.requests import Request

from millstream.core.settings.configuration import Configuration
from millstream.core.settings.secrets import shown_options
from millstream.dispatcher.rest import process_schemas as schemas
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.table import RestRoute


class ProcessEndpoints:
    """Shows the dispatcher itself."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        return [
            RestRoute(
                "GET", "/jobmanager/config", self.config, "The options that were set for the cluster.", schemas.OPTIONS
            ),
            RestRoute(
                "GET", "/jobmanager/environment", self.environment, "The Python that the dispatcher runs on.",
                schemas.ENVIRONMENT,
            ),
        ]  # fmt: skip

    async def config(self, request: Request) -> list[Json]:
        """`GET /jobmanager/config`."""
        shown = shown_options(self._configuration.to_dict())
        return [{"key": key, "value": shown[key]} for key in sorted(shown)]

    async def environment(self, request: Request) -> Json:
        """`GET /jobmanager/environment`."""
        return {
            "jvm": {
                "version": f"{platform.python_implementation()} {platform.python_version()}",
                "arch": platform.machine(),
                "options": [*(f"-W{option}" for option in sys.warnoptions), *(f"-X{name}" for name in sys._xoptions)],  # noqa: SLF001  # the documented way to them
            },
            "classpath": list(sys.path),
            "packages": await asyncio.to_thread(_packages),
        }


@cache
def _packages() -> dict[str, str]:
    """Names and versions; those of a process do not change while it runs."""
    found = {str(one.metadata["Name"]): one.version for one in distributions()}
    return {name: found[name] for name in sorted(found)}
