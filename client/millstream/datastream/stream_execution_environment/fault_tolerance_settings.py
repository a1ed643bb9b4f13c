"""The part of the environment that is about checkpoints, savepoints, state and restarts, with PyFlink's names."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Self

from millstream.common.configuration import Configuration
from millstream.common.restart_strategy import PREFIX, RestartStrategyConfiguration
from millstream.common.time import Interval
from millstream.core.errors import InvalidProgramError
from millstream.core.settings.options.execution import CHECKPOINTING_SAVEPOINT_DIR, STATE_BACKEND_TYPE
from millstream.datastream.checkpoint_config import CheckpointConfig
from millstream.datastream.checkpointing_mode import CheckpointingMode
from millstream.datastream.state_backend import STATE_BACKENDS, StateBackend


class FaultToleranceSettings(ABC):
    """Setters, which write into the environment's explicit options, and getters of what holds."""

    _explicit: Configuration

    @abstractmethod
    def get_configuration(self) -> Configuration:
        """A copy of all options that hold."""

    def enable_checkpointing(self, interval: Interval, mode: CheckpointingMode | None = None) -> Self:
        """Takes a checkpoint every `interval`: `env.enable_checkpointing(10_000)`.

        The interval is in milliseconds, or a duration; `mode` is a CheckpointingMode.

            env.enable_checkpointing(10_000)
        """
        self.get_checkpoint_config().set_checkpoint_interval(interval)
        if mode is not None:
            self.get_checkpoint_config().set_checkpointing_mode(mode)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        """How checkpoints are taken; its setters are the environment's own.

        For example:

            env.get_checkpoint_config().set_checkpoint_storage_dir("file:///shared/checkpoints")
        """
        return CheckpointConfig(self._explicit, self.get_configuration)

    def get_checkpoint_interval(self) -> int:
        """Milliseconds; -1: no checkpoints are taken."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Exactly once, or at least once."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    get_checkpointing_consistency_mode = get_checkpointing_mode

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers overtake records under backpressure."""
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Never: what barriers cannot overtake, they never do."""
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """Accepts `enabled=False` only: there is no changelog. Incremental checkpoints keep checkpoints small.

        Raises `InvalidProgramError` for True.
        """
        if enabled:
            raise InvalidProgramError(
                "enable_changelog_state_backend: there is no changelog of state; set "
                "execution.checkpointing.incremental to true for checkpoints that hold only what has changed"
            )
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Returns None, as in PyFlink when it is not set: there is no changelog."""
        return None

    def set_default_savepoint_directory(self, directory: str | os.PathLike[str]) -> Self:
        """The directory or URI for savepoints for which no other is given.

        For example:

            env.set_default_savepoint_directory("file:///shared/savepoints")
        """
        from millstream.core.snapshot.metadata.model import absolute_location

        self._explicit.set(CHECKPOINTING_SAVEPOINT_DIR, absolute_location(os.fspath(directory)))
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """The directory or URI for savepoints for which no other is given, when there is one."""
        return self.get_configuration().get(CHECKPOINTING_SAVEPOINT_DIR) or None

    def set_state_backend(self, state_backend: StateBackend) -> Self:
        """Sets how tasks keep their state.

        `state_backend` is a HashMapStateBackend or an EmbeddedRocksDBStateBackend.

        Raises `InvalidProgramError` unless it is a StateBackend.

            env.set_state_backend(HashMapStateBackend())
        """
        if not isinstance(state_backend, tuple(STATE_BACKENDS.values())):
            raise InvalidProgramError(
                f"set_state_backend: expected a StateBackend such as HashMapStateBackend(), not {state_backend!r}"
            )
        self._explicit.set(STATE_BACKEND_TYPE, state_backend.type_name)
        return self

    def get_state_backend(self) -> StateBackend | None:
        """Returns the state backend that the program or the configuration sets, or None."""
        options = self.get_configuration()
        return STATE_BACKENDS[options.get(STATE_BACKEND_TYPE)]() if options.is_set(STATE_BACKEND_TYPE) else None

    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategyConfiguration) -> Self:
        """Sets what happens when the job fails: `RestartStrategies` makes a `restart_strategy_configuration`.

        Raises `InvalidProgramError` for anything else.

            env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 10_000))
        """
        if not isinstance(restart_strategy_configuration, RestartStrategyConfiguration):
            raise InvalidProgramError(
                f"set_restart_strategy: expected what RestartStrategies makes, not {restart_strategy_configuration!r}"
            )
        for key in self._explicit.key_set():
            if key.startswith(PREFIX):
                self._explicit.remove_config(key)
        self._explicit.add_all(restart_strategy_configuration.options)
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """What `set_restart_strategy` set."""
        options = self._explicit.to_dict()
        return RestartStrategyConfiguration({key: options[key] for key in options if key.startswith(PREFIX)})
