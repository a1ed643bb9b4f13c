"""`ExecutionConfig`: what `env.get_config()` answers, as far as it applies. Every setting is an option of its own."""

from __future__ import annotations

from collections.abc import Callable

from millstream.common.configuration import Configuration


class ExecutionConfig:
    """Reads and sets an environment's options."""

    PARALLELISM_DEFAULT = -1
    PARALLELISM_UNKNOWN = -2

    def __init__(self, explicit: Configuration, current: Callable[[], Configuration]) -> None:
        self._explicit = explicit
        self._current = current

    def enable_object_reuse(self) -> ExecutionConfig:
        """Records are handed on as they are: for programs that change none after they have emitted or got it."""
        self._explicit.set("pipeline.object-reuse", True)
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        """Records that can be changed are copied where someone else may hold them: the default."""
        self._explicit.set("pipeline.object-reuse", False)
        return self

    def is_object_reuse_enabled(self) -> bool:
        """Whether records are handed on as they are."""
        return self._current().boolean("pipeline.object-reuse")

    def get_parallelism(self) -> int:
        """The parallelism of operators that set none themselves."""
        return self._current().integer("parallelism.default")

    def get_max_parallelism(self) -> int:
        """The number of key groups; -1: each operator's follows from its parallelism."""
        return self._current().integer("pipeline.max-parallelism")
