"""How large a simulated schedule is, and how long things take in it.

`SHORT` is for thousands: few processes, small jobs, several faults within a few seconds, and timeouts to match.
`STANDBYS` is the same with up to two of each service on a store that is in trouble now and then. In `UNREACHED`, one
job manager is cut off from all dispatchers for good, and jobs do not end soon by themselves. `LONG` has more of
everything, and the timeouts of a small real cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

_RESTART = "restart-strategy"
_DELAY = f"{_RESTART}.fixed-delay"
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Shape:
    """Of a schedule. Ranges are from the least to the most, drawn for each run."""

    steps: int
    steps_per_second: tuple[float, ...]
    """Drawn for each run: faults that come fast meet each other, slow ones are waited out."""
    fault_rate: float
    """Of steps at which something is made to go wrong."""
    job_managers: Range
    task_managers: Range
    slots: Range
    first_jobs: Range
    most_jobs: int
    vertices: Range
    width: Range
    scale: float
    """By which all that takes time takes longer or shorter than in `LONG`."""
    work: tuple[float, ...]
    """Mean seconds of what tasks have to do."""
    splits: Range = (2, 6)
    """Of the input of a job, and how many records each has."""
    length: Range = (1, 5)
    checkpoint_interval: float = 2.0
    allocation_timeout: float = 10.0
    recovers: bool = False
    """Whether leaders are found in the store, which may be in trouble, and jobs outlive their job manager."""
    dispatchers: Range = (1, 1)
    """Candidates for one role; job managers always are, for each job."""
    resource_managers: Range = (1, 1)
    thorough: float = 1.0
    """Of runs that continue after all is at rest: they wait out every timeout, and run a job on every slot."""
    out_of_touch: float = 0.0
    """Of runs with several job managers in which no dispatcher reaches one of them any more, also when faults stop."""
    mishaps_end: bool = False
    """Whether mishaps end with the faults. Else they end the jobs that run for long."""
    converted: float = 1.0
    """Of runs in which messages are turned into bytes and back."""

    @property
    def heartbeat_timeout(self) -> float:
        return 6.0 * self.scale

    def options(self) -> dict[str, str]:
        """Of every service."""
        return {
            "heartbeat.interval": self.seconds(2),
            "heartbeat.timeout": self.seconds(6),
            "registration.timeout": self.seconds(60),
            "slot.request.timeout": self.seconds(20),
            "task.cancellation.timeout": self.seconds(5),
            "worker.start.timeout": self.seconds(10),
            "metrics.fetcher.update-interval": self.seconds(30),
        }

    def checkpoints(self) -> tuple[dict[str, str], ...]:
        """Of jobs that take them: aligned, also several at a time, and unaligned, at once or after a while."""
        checkpointing = "execution.checkpointing"
        often = {f"{checkpointing}.interval": self.seconds(self.checkpoint_interval)}
        timeout = {f"{checkpointing}.timeout": self.seconds(8), f"{checkpointing}.num-retained": "2"}
        unaligned = {f"{checkpointing}.unaligned.enabled": "true"}
        return (
            often | timeout,
            often | timeout | {f"{checkpointing}.max-concurrent-checkpoints": "2"},
            often | timeout | unaligned,
            often | timeout | unaligned | {f"{checkpointing}.aligned-checkpoint-timeout": self.seconds(0.1)},
        )

    def restarts(self) -> tuple[dict[str, str], ...]:
        """The strategies of jobs; the first one is none."""
        return (
            {f"{_RESTART}.type": "none"},
            {f"{_RESTART}.type": "fixed-delay", f"{_DELAY}.attempts": "1", f"{_DELAY}.delay": "0 s"},
            {f"{_RESTART}.type": "fixed-delay", f"{_DELAY}.attempts": "4", f"{_DELAY}.delay": self.seconds(1)},
            {
                f"{_RESTART}.type": "failure-rate",
                f"{_RESTART}.failure-rate.max-failures-per-interval": "3",
                f"{_RESTART}.failure-rate.failure-rate-interval": "600 s",
                f"{_RESTART}.failure-rate.delay": self.seconds(0.5),
            },
            {
                f"{_RESTART}.type": "exponential-delay",
                f"{_RESTART}.exponential-delay.initial-backoff": self.seconds(0.5),
                f"{_RESTART}.exponential-delay.max-backoff": self.seconds(4),
                f"{_RESTART}.exponential-delay.jitter-factor": "0",
                f"{_RESTART}.exponential-delay.attempts-before-reset-backoff": "4",
            },
        )

    def seconds(self, seconds: float) -> str:
        """As an option has it."""
        return f"{seconds * self.scale * 1000:.0f} ms"


LONG = Shape(
    steps=80,
    steps_per_second=(2.0,),
    fault_rate=0.25,
    job_managers=(1, 2),
    task_managers=(1, 3),
    slots=(1, 3),
    first_jobs=(1, 3),
    most_jobs=10,
    vertices=(1, 3),
    width=(1, 3),
    scale=1.0,
    work=(0.5, 3.0, 60.0),
)

SHORT = Shape(
    steps=7,
    steps_per_second=(5.0, 3.0, 3.0, 0.8),
    fault_rate=0.6,
    job_managers=(1, 2),
    task_managers=(1, 2),
    slots=(1, 3),
    first_jobs=(1, 1),
    most_jobs=2,
    vertices=(1, 2),
    width=(1, 2),
    scale=0.5,
    checkpoint_interval=0.8,
    work=(0.2, 1.0, 2.0),
    thorough=0.03,
    converted=0.05,
)

STANDBYS = replace(SHORT, recovers=True, dispatchers=(1, 2), resource_managers=(1, 2), out_of_touch=0.1)

UNREACHED = replace(STANDBYS, job_managers=(2, 3), work=(1.0, 1_000.0), out_of_touch=1.0, mishaps_end=True)

SHAPES = {"short": SHORT, "long": LONG, "standbys": STANDBYS, "unreached": UNREACHED}
"""By the names that `make simulate` has for them."""
