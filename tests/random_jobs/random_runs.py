"""How a random job is run: in legs, each continuing where the one before was stopped, while workers are killed."""

from __future__ import annotations

import random
from dataclasses import dataclass

MODES = ("aligned", "aligned", "unaligned", "unaligned", "timed", "at least once")
STORAGES = ("files", "files", "files", "memory")
ENDINGS = ("stop", "stop", "drain", "cancel", "cancel")


@dataclass(frozen=True, slots=True)
class Event:
    """An event that happens to a worker after so many more checkpoints."""

    kind: str
    after: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Leg:
    """One submission. `ending` is how it is to end, unless it ends before by itself."""

    parallelism: int
    mode: str
    options: dict[str, str]
    events: tuple[Event, ...]
    ending: str
    after: int
    killed_while_ending: bool


def legs(chance: random.Random, most: int) -> list[Leg]:
    """The last one runs to the end of the input."""
    count = min(most, chance.choice((1, 2, 2, 3, 3)))
    exact = chance.random() < 0.85
    few = chance.choice(("", "", "8", "300"))
    return [_leg(chance, exact, number == count - 1, few) for number in range(count)]


def _leg(chance: random.Random, exact: bool, last: bool, max_parallelism: str) -> Leg:
    mode = chance.choice(MODES[:-1] if exact else MODES)
    storage = chance.choice(STORAGES)
    ending = "finish" if last else chance.choice(ENDINGS[:3] if storage == "memory" else ENDINGS)
    options = {
        "execution.checkpointing.interval": f"{chance.choice((50, 100, 200, 300))} ms",
        "execution.checkpointing.min-pause": chance.choice(("0 ms", "0 ms", "50 ms")),
        "execution.checkpointing.incremental": _flag(chance),
        "execution.checkpointing.local-backup.enabled": _flag(chance),
        "execution.state-recovery.from-local": _flag(chance),
        "execution.state-recovery.claim-mode": chance.choice(("NO_CLAIM", "NO_CLAIM", "CLAIM")),
        "execution.checkpointing.tolerable-failed-checkpoints": chance.choice(("0", "3", "1000")),
        "execution.checkpointing.num-retained": chance.choice(("1", "1", "3")),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.batch.max-rows": chance.choice(("1", "7", "64", "2048")),
        "execution.batch.max-column-rows": chance.choice(("1", "30", "65536")),
        "execution.buffer-timeout.interval": chance.choice(("0 ms", "10 ms", "100 ms")),
        "taskmanager.memory.segment-size": chance.choice(("1 kb", "4 kb", "256 kb")),
        "taskmanager.network.memory.buffers-per-channel": chance.choice(("1", "2")),
        "taskmanager.network.memory.floating-buffers-per-gate": chance.choice(("0", "1", "8")),
        "taskmanager.network.memory.output-buffers": chance.choice(("1", "2", "8")),
        "taskmanager.network.compression.codec": chance.choice(("NONE", "LZ4")),
        "pipeline.operator-chaining.enabled": chance.choice(("true", "true", "true", "false")),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "50",
        "restart-strategy.fixed-delay.delay": chance.choice(("0 ms", "50 ms")),
    }
    if storage == "memory":
        options["execution.checkpointing.storage"] = "jobmanager"
    if max_parallelism:
        options["pipeline.max-parallelism"] = max_parallelism
    match mode:
        case "unaligned":
            options["execution.checkpointing.unaligned.enabled"] = "true"
        case "timed":
            options["execution.checkpointing.unaligned.enabled"] = "true"
            options["execution.checkpointing.aligned-checkpoint-timeout"] = chance.choice(("10 ms", "80 ms"))
        case "at least once":
            options["execution.checkpointing.mode"] = "AT_LEAST_ONCE"
            options["execution.checkpointing.max-concurrent-checkpoints"] = chance.choice(("1", "3"))
        case _:
            options["execution.checkpointing.max-concurrent-checkpoints"] = chance.choice(("1", "1", "3"))
    events = tuple(_event(chance) for _ in range(chance.choice((0, 1, 1, 2, 3))))
    return Leg(chance.randint(1, 4), mode, options, events, ending, chance.choice((0, 1, 1, 2)), chance.random() < 0.2)


def _event(chance: random.Random) -> Event:
    kind = chance.choice(("kill", "kill", "kill", "kill all", "kill enumerators", "freeze", "savepoint"))
    return Event(kind, chance.choice((0, 1, 1, 2, 5)), chance.choice((0.1, 0.5)))


def _flag(chance: random.Random) -> str:
    return chance.choice(("true", "false"))
