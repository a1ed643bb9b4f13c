"""Explanations why a job emits nothing, from the command line and over REST of a cluster whose jobs are stalled."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from system import Cluster, recovering, wait_until, write_job
from tailed_source import TAILED_SOURCE

pytestmark = pytest.mark.process

DAY = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


def append(file: Path, *timestamps: int) -> None:
    with file.open("a") as opened:
        opened.writelines(f"{timestamp}\n" for timestamp in timestamps)


def findings(cluster: Cluster, job_id: str) -> list[dict[str, Any]]:
    return list(cluster.get(f"/jobs/{job_id}/stall")["findings"])


def kinds(cluster: Cluster, job_id: str) -> list[str]:
    return [found["kind"] for found in findings(cluster, job_id)]


def explained(cluster: Cluster, job_id: str) -> str:
    """The output of the command, without line breaks; dates are replaced by `<time>`."""
    shown = cluster.cli("explain-idle", "-m", cluster.rest, job_id).stdout
    paragraphs = [" ".join(lines.split()) for lines in shown.split("\n\n")]
    return re.sub(rf"(?<!time ){DAY} UTC", "<time>", "\n".join(paragraphs))


def test_an_idle_partition_that_holds_back_a_window(cluster: Cluster, tmp_path: Path) -> None:
    busy, silent = tmp_path / "busy", tmp_path / "silent"
    append(busy, 100, 200, 7_500)
    append(silent, 50)
    body = f"""
    from millstream.common import Types
    from millstream.datastream.aggregates import count

    source = TailedSource({str(tmp_path)!r}, "busy", "silent")
    events = env.from_source(source, STAMPED, "Orders", Types.TUPLE([Types.STRING(), Types.LONG()]))
    seconds = TumblingEventTimeWindows.of(Time.seconds(1))
    sums = events.key_by(lambda event: "all").window(seconds).reduce(lambda one, other: ("all", one[1] + other[1]))
    sums.name("Sums").print()
    events.key_by("f0").window(seconds).aggregate(count()).name("Counts").print()
    env.execute("held back")
    """
    job_id = cluster.submit(write_job(tmp_path, "held_back", TAILED_SOURCE + dedent(body)))
    wait_until(lambda: "WATERMARK_HELD_BACK" in kinds(cluster, job_id), "the windows to be held back")
    text = explained(cluster, job_id)
    held_back = (
        "It is held back by split 'silent' of 'Source: Orders', from which no record has arrived since <time> and "
        "which is at event time 1970-01-01 00:00:00.049 UTC; the others have come to 1970-01-01 00:00:07.499 UTC. "
    )
    advice = (
        "What to do: have records sent there, or give its WatermarkStrategy with_idleness(...), so that operators "
        "do not wait for a stream without records"
    )
    now = "event time 1970-01-01 00:00:00.999 UTC (it is 1970-01-01 00:00:00.049 UTC now)"
    sums = "2 open windows, which took 4 records since the last firing"
    counts = "2 open windows, each for all keys, which took 4 records since the last firing"
    assert text.splitlines() == [
        f"Job 'held back' ({job_id}) is RUNNING. 2 things hold it back.",
        f"1. 'Sums' waits for {now} with {sums}. {held_back}{advice}",
        f"2. 'Counts' waits for {now} with {counts}. {held_back}{advice}",
        f"What waits: - 'Sums': {sums}; the next fires at {now} - 'Counts': {counts}; the next fires at {now}",
    ]
    append(silent, 7_600)
    (vertex,) = (v["id"] for v in cluster.get(f"/jobs/{job_id}")["vertices"] if "Sums" in v["name"])
    moved = {"id": "0.currentInputWatermark", "value": "7499"}
    wait_until(lambda: moved in cluster.get(f"/jobs/{job_id}/vertices/{vertex}/watermarks"), "event time to continue")
    assert "WATERMARK_HELD_BACK" not in kinds(cluster, job_id)
    cluster.cancel(job_id)
    assert explained(cluster, job_id) == f"Job 'held back' ({job_id}) is CANCELED. The job was cancelled."


def test_sources_of_a_group_stay_aligned_and_do_so_again_after_a_failure(cluster: Cluster, tmp_path: Path) -> None:
    append(tmp_path / "fast", *range(0, 100_000, 100))
    append(tmp_path / "slow", 1_000)
    body = f"""
    aligned = STAMPED.with_watermark_alignment("keep together", Duration.of_seconds(1), Duration.of_millis(50))
    for name in ("fast", "slow"):
        events = env.from_source(TailedSource({str(tmp_path)!r}, name), aligned, name)
        events.key_by(lambda event: event[0]).map(lambda event: event).print()
    env.execute("aligned")
    """
    job = write_job(tmp_path, "aligned", TAILED_SOURCE + dedent(body))
    options = [f"-D{option}" for option in recovering(tmp_path / "checkpoints")]
    job_id = cluster.submit(job, *options)
    cluster.wait_for(job_id, "RUNNING")
    (fast,) = (v["id"] for v in cluster.get(f"/jobs/{job_id}")["vertices"] if "fast" in v["name"])

    def reached() -> int:
        path = f"/jobs/{job_id}/vertices/{fast}/watermarks?get=currentOutputWatermark"
        marks = {mark["id"]: int(mark["value"]) for mark in cluster.get(path)}
        return marks.get("0.currentOutputWatermark", -1)

    def paused() -> str:
        messages = [f["message"] for f in findings(cluster, job_id) if f["kind"] == "PAUSED_FOR_ALIGNMENT"]
        return messages[0] if messages else ""

    message = wait_until(paused, "the fast source to wait for the slow one")
    assert message.startswith("'Source: fast' is paused since ")
    assert " ahead of its alignment group 'keep together', whose slowest is 'Source: slow' with event time " in message
    assert reached() < 60_000, "it was stopped long before its end"
    append(tmp_path / "slow", 60_000)
    wait_until(lambda: reached() > 60_000, "the fast source to follow")
    assert reached() < 99_000
    cluster.wait_for_checkpoint(job_id)
    cluster.lose_a_worker(job_id)
    cluster.wait_for(job_id, "RUNNING")
    wait_until(paused, "it to wait again after the failure")
    assert reached() < 99_000
    append(tmp_path / "slow", 200_000)
    wait_until(lambda: reached() == 99_899, "the fast source to come to its end")
    cluster.cancel(job_id)


def test_a_job_that_makes_progress_and_one_that_has_finished(cluster: Cluster, tmp_path: Path) -> None:
    endless = write_job(tmp_path, "endless", "env.from_sequence(1, 10**12).print()\nenv.execute('endless')")
    job_id = cluster.submit(endless)
    cluster.wait_for(job_id, "RUNNING")
    assert explained(cluster, job_id) == f"Job 'endless' ({job_id}) is RUNNING. Nothing holds it back."
    cluster.cancel(job_id)
    bounded = write_job(tmp_path, "bounded", "env.from_collection([1]).print()\nenv.execute('bounded')")
    job_id = cluster.submit(bounded)
    cluster.wait_for(job_id, "FINISHED")
    assert explained(cluster, job_id).endswith("is FINISHED. The job has finished: all its input was processed.")


def test_a_batch_job_that_holds_its_input_until_it_has_ended(cluster: Cluster, tmp_path: Path) -> None:
    body = """
    from millstream.common import Types
    from millstream.datastream import KeyedProcessFunction, RuntimeExecutionMode
    from millstream.datastream.connectors.datagen import DataGeneratorSource

    class Same(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield value

    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    slow = DataGeneratorSource(lambda index: index, 1_000_000, 200.0, Types.LONG())
    env.from_source(slow, None, "Orders").key_by(lambda n: n % 3).process(Same()).name("Same").print()
    env.execute("sorted")
    """
    job_id = cluster.submit(write_job(tmp_path, "sorted", dedent(body)))
    wait_until(lambda: "INPUT_NOT_ENDED" in kinds(cluster, job_id), "records to be held")
    text = re.sub(r"taken [\d,]+ records?", "taken some records", explained(cluster, job_id))
    assert text.startswith(
        f"Job 'sorted' ({job_id}) is RUNNING. 1 thing holds it back.\n"
        "1. 'Same' has taken some records, and emits its results when its input has ended, because the job is run as a "
        "batch: 'Source: Orders' is still read. What to do: wait until its sources have been read to their end"
    )
    cluster.cancel(job_id)
