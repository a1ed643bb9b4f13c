"""The pipeline of `python_pipeline` with a checkpoint every second, into files.

Two slot workers against two processes of Bytewax, without recovery and with its recovery store and a snapshot every
second; best of three each. Records/s are as in `python_pipeline`. Millstream gets five times the records, so that all
of them run for some seconds and every one of its runs completes several checkpoints, which is checked.
"""

from __future__ import annotations

from glob import glob  # unlike Path.glob, it tolerates folders that are being removed
from pathlib import Path
from tempfile import TemporaryDirectory

from bytewax.recovery import init_db_dir
from python_pipeline import TIMES, Timing, all_rates, best, run_bytewax, run_millstream
from rows import Peer, Row, Scale, check, times_the_peer


def measure(scale: Scale) -> list[Row]:
    records = scale.of(2_000_000)
    plain, recovering, ours = [], [], []
    least = 2 if scale.factor >= 1 else 0
    checkpoints = []
    for _ in range(TIMES):  # alternately, so that a slow moment of the machine affects them alike
        plain.append(run_bytewax(records))
        recovering.append(_recovering(records))
        timing, completed = _checkpointed(records * 5)
        check(completed >= least, f"{least} checkpoints had to complete, not {completed}")
        ours.append(timing)
        checkpoints.append(completed)
    rate, note = best(ours).rate, f"{all_rates(ours)}; checkpoints: {', '.join(map(str, checkpoints))}"
    without = Peer("Bytewax without recovery", best(plain).rate)
    snapshots = Peer("Bytewax, a snapshot every second", best(recovering).rate)
    return [
        Row("records/s, a checkpoint every second", rate, "records/s", times_the_peer(4), without, note),
        Row("records/s, a checkpoint every second", rate, "records/s", None, snapshots, all_rates(recovering)),
    ]


def _checkpointed(records: int) -> tuple[Timing, int]:
    """The run, and the number of completed checkpoints."""
    with TemporaryDirectory(prefix="millstream-checkpoints-") as folder:
        seen: set[str] = set()
        timing = run_millstream(
            records, "typed", "execution.checkpointing.interval=1 s", f"execution.checkpointing.dir={folder}",
            watch=lambda: seen.update(Path(file).parent.name for file in glob(f"{folder}/*/chk-*/_metadata.json")),
        )  # fmt: skip
        return timing, len(seen)


def _recovering(records: int) -> Timing:
    with TemporaryDirectory(prefix="bytewax-recovery-") as folder:
        init_db_dir(Path(folder), 2)
        return run_bytewax(records, "-r", folder, "-s", "1", "-b", "0")
