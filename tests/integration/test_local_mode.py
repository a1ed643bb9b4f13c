"""`python job.py` without a running cluster."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import processes_with
from system import DEADLINE, wait_until, write_job
from wheels import write_wheel

pytestmark = pytest.mark.process


def ran(script: Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs the program to its end, with its own folder as the working directory."""
    command = [sys.executable, script]
    done = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == status, done.stderr
    return done


def test_it_runs_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("def double(x):\n    return x * 2\n")
    body = """
    import logging

    from beside import double

    logging.basicConfig(level=logging.DEBUG, handlers=[logging.FileHandler("program.log")])
    env.set_parallelism(2)
    env.from_sequence(1, 5).map(double).print("out")
    result = env.execute("hello")
    print(result.get_job_id())
    """
    script = write_job(tmp_path, "hello", body)
    done = ran(script)
    assert (tmp_path / "program.log").read_text() == "", "the services' messages are not the program's"
    lines = [line.split("> ")[1] for line in done.stdout.splitlines() if line.startswith("out:")]
    assert sorted(map(int, lines)) == [2, 4, 6, 8, 10]
    assert done.stderr == ""
    assert not processes_with(str(tmp_path))


def test_options_determine_what_functions_import_read_and_log(tmp_path: Path) -> None:
    """`-D python.files=...` and the like of PyFlink's command line, in the program's `Configuration`."""
    for name, text in {
        "lib/inlib.py": "HERE = 'lib'",
        "on_hosts/onhost.py": "HERE = 'host'",
        "data/words.txt": "data",
    }.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path / "data")
    body = """
    import logging
    import os
    from millstream.common import Configuration

    env.configure(Configuration({
        "python.files": "lib",
        "python.archives": "packed.zip#data",
        "python.pythonpath": os.path.abspath("on_hosts"),
        "python.logging.default.level": "ERROR",
        "python.logging.level.overrides": {"mine.loud": "DEBUG"},
    }))

    def looked(n):
        import inlib, onhost
        for name in ("mine", "mine.loud"):
            logging.getLogger(name).info("logged by %s", name)
        return (inlib.HERE, onhost.HERE, open("data/words.txt").read())

    env.from_collection([1]).map(looked).print()
    env.execute()
    """
    done = ran(write_job(tmp_path, "configured", body))
    assert done.stdout == "('lib', 'host', 'data')\n"
    assert ("logged by mine.loud" in done.stderr, "logged by mine\n" in done.stderr) == (True, False)


def test_the_requirements_of_a_job_take_precedence_over_those_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "packages").mkdir()
    write_wheel(tmp_path / "packages", {"iniconfig.py": "WHOSE = 'the job'"}, "iniconfig", "99.0")
    (tmp_path / "requirements.txt").write_text("iniconfig==99.0")
    body = """
    import iniconfig  # pytest needs it, so it is there

    assert not hasattr(iniconfig, "WHOSE")
    env.set_python_requirements("requirements.txt", "packages")

    def whose(n):
        import iniconfig
        return iniconfig.WHOSE

    env.from_collection([1]).map(whose).print()
    env.execute()
    """
    assert ran(write_job(tmp_path, "requiring", body)).stdout == "the job\n"


def test_records_after_a_punctuated_watermark_are_late_whatever_the_batch_size(tmp_path: Path) -> None:
    """5,000 of them, each late by the watermark that the record before it emits: from a source, and within a stream."""
    body = """
    from millstream.common import Duration, Time, Types, Watermark, WatermarkGenerator, WatermarkStrategy
    from millstream.datastream import OutputTag
    from millstream.datastream.connectors.number_seq import NumberSequenceSource
    from millstream.datastream.functions import AllWindowFunction, KeyedProcessFunction
    from millstream.datastream.window import TumblingEventTimeWindows

    def time_of(n, _=None):
        return 10 * n if n % 2 == 0 else 10 * n - 15

    class Marks(WatermarkGenerator):
        def on_event(self, n, event_timestamp, output):
            if n % 2 == 0:
                output.emit_watermark(Watermark(event_timestamp))

        def on_periodic_emit(self, output):
            pass

    class Alarms(KeyedProcessFunction):
        def process_element(self, n, ctx):
            if n % 2 == 0:
                ctx.timer_service().register_event_time_timer(10 * n + 20)
            yield "record", n

        def on_timer(self, timestamp, ctx):
            yield "timer", (timestamp - 1) // 10

    env.set_parallelism(1)
    marks = WatermarkStrategy.for_generator(lambda ctx: Marks()).with_timestamp_assigner(time_of)
    sequence = NumberSequenceSource(0, 9_999)
    numbers = env.from_source(sequence, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    streams = {
        "source": env.from_source(sequence, marks, "marked", Types.LONG()),
        "middle": numbers.assign_timestamps_and_watermarks(marks),
    }
    rows = env.from_collection([("none", "", 0)])
    for name, stream in streams.items():
        tag = OutputTag("late")
        keyed = stream.key_by(lambda n: n // 2 % 3)
        sums = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(2))).side_output_late_data(tag).reduce(max)
        alarms = stream.key_by(lambda n: 0).process(Alarms())
        for kind, found in {"sum": sums, "late": sums.get_side_output(tag)}.items():
            rows = rows.union(found.map(lambda n, name=name, kind=kind: (name, kind, n)))
        rows = rows.union(alarms.map(lambda alarm, name=name: (name, *alarm)))
    with rows.execute_and_collect() as results:
        found = list(results)
    for name in streams:
        assert sorted(n for where, kind, n in found if (where, kind) == (name, "sum")) == list(range(0, 10_000, 2))
        assert sorted(n for where, kind, n in found if (where, kind) == (name, "late")) == list(range(1, 10_000, 2))
        seen = [(kind, n) for where, kind, n in found if where == name and kind in ("record", "timer")]
        assert seen.index(("timer", 1)) < seen.index(("record", 3)), seen[:9]
        for position, (kind, n) in enumerate(seen):
            if kind == "record" and 2 < n and n % 2 == 1:
                assert seen[position - 1] == ("timer", n - 2), (n, seen[position - 3 : position])
    print("all of it")
    """
    assert ran(write_job(tmp_path, "late", body)).stdout == "all of it\n"


@pytest.mark.parametrize("in_process", [False, True])
def test_functions_and_the_program_may_fork(tmp_path: Path, in_process: bool) -> None:
    """In every way that Python has. The exit status of a child does not affect the job."""
    body = f"""
    import math, multiprocessing, os, sys
    from concurrent.futures import ProcessPoolExecutor
    from millstream.common import Configuration
    from millstream.datastream.functions import MapFunction

    def exit_status(leave):
        if (child := os.fork()) == 0:
            leave()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def returning(row):
        if (child := os.fork()) == 0:
            return "of the child"
        return (*row, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    class Forking(MapFunction):
        def open(self, runtime_context):
            method = ("fork", "spawn", "forkserver")[runtime_context.get_index_of_this_subtask()]
            self.context = multiprocessing.get_context(method)
            self.pool = ProcessPoolExecutor(1, mp_context=self.context)

        def map(self, n):
            process = self.context.Process(target=os._exit, args=(5,))
            process.start()
            process.join()
            left = [exit_status(lambda: sys.exit(3)), exit_status(lambda: 1 / 0)]
            return (n, self.pool.submit(math.pow, n, 2).result(), process.exitcode, *left)

        def close(self):
            self.pool.shutdown()

    if __name__ == "__main__":
        options = Configuration({{"execution.local.in-process": "{in_process}".lower()}})
        env = StreamExecutionEnvironment.get_execution_environment(options)
        env.set_parallelism(3)
        mapped = env.from_sequence(1, 6).key_by(lambda n: n).map(Forking()).map(returning)
        with mapped.key_by(lambda row: row[0]).reduce(lambda a, b: b).execute_and_collect() as rows:
            for n, *results in rows:
                assert results == [n * n, 5, 3, 1, 0], results
                assert exit_status(lambda: sys.exit(4)) == 4
        print("all of it")
    """
    script = write_job(tmp_path, "forking", body)
    done = ran(script)
    assert done.stdout == "all of it\n"
    assert done.stderr.count("ZeroDivisionError") == 6
    wait_until(lambda: not processes_with(str(tmp_path)), "the workers and their children to be gone")


STOPPING = """
def add(x):
    total = x + 41
    breakpoint()
    return total

env.from_collection([1, 2]).map(add).name("add").print()
env.execute("debugged")
"""


@pytest.mark.parametrize("parallelism", [1, 2])
def test_breakpoints_stop_on_the_terminal(tmp_path: Path, parallelism: int) -> None:
    script = write_job(tmp_path, "debugged", f"env.set_parallelism({parallelism})\n{STOPPING}")
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, script], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown, prompts = b"", 0
    try:
        with contextlib.suppress(OSError):  # the end of a terminal
            while select.select([ours], [], [], DEADLINE)[0]:
                shown += os.read(ours, 4096)
                while shown.count(b"(Pdb) ") > prompts:
                    os.write(ours, b"continue\n" if prompts % 2 else b"p total * 1000\n")
                    prompts += 1
        assert process.wait(DEADLINE) == 0, shown
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    lines = shown.decode().splitlines()
    assert prompts == 4
    assert sorted(line for line in lines if line.endswith("000") and line.isdigit()) == ["42000", "43000"]
    assert {line.rpartition(" ")[2] for line in lines if line.endswith(("42", "43"))} == {"42", "43"}


def test_a_breakpoint_without_a_terminal_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = write_job(tmp_path, "debugged", STOPPING)
    assert "breakpoint() needs a terminal" in ran(script, status=1).stderr
    monkeypatch.setenv("PYTHONBREAKPOINT", "0")
    assert sorted(ran(script).stdout.split()) == ["42", "43"]


STUBBORN = """
import signal
from millstream.datastream.functions import MapFunction

class Stubborn(MapFunction):
    def map(self, value):
        print("working", flush=True)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # what interrupts a task that is cancelled
        while True:
            signal.pause()

env.from_collection([1]).map(Stubborn()).print()
env.execute("stubborn")
"""


@pytest.mark.parametrize("collects", [False, True])
def test_a_second_ctrl_c_ends_the_program_at_once(tmp_path: Path, collects: bool) -> None:
    body = STUBBORN.replace('.print()\nenv.execute("stubborn")', '.execute_and_collect().__next__()')
    command = [sys.executable, write_job(tmp_path, "stubborn", body if collects else STUBBORN)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout.readline() == "working\n"
            running.send_signal(signal.SIGINT)
            assert running.stderr.readline() == "\n"
            line = running.stderr.readline()
            assert re.fullmatch(r"Cancelling job [0-9a-f]{32}. Press Ctrl-C again to leave without .*\n", line)
            running.send_signal(signal.SIGINT)
            _, rest = running.communicate(timeout=DEADLINE)
        finally:
            running.kill()
    assert running.returncode == 130
    assert re.fullmatch(r"Left while job [0-9a-f]{32} was being cancelled.\n", rest)
    wait_until(lambda: not processes_with(str(tmp_path)), "the workers to be gone")


@pytest.mark.parametrize("options", ["", "Configuration({'execution.local.in-process': 'true'})"])
def test_ctrl_c_cancels_cleanly(tmp_path: Path, options: str) -> None:
    body = f"""
    import time
    from millstream.common import Configuration

    env = StreamExecutionEnvironment.get_execution_environment({options})
    env.set_parallelism(2)
    env.from_sequence(1, 10**12).map(lambda x: print("working", flush=True) or time.sleep(0.05)).print()
    env.execute("endless")
    """
    command = [sys.executable, write_job(tmp_path, "endless", body)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout.readline().startswith("working")  # subtasks print at the same time
            running.send_signal(signal.SIGINT)
            _, error = running.communicate(timeout=DEADLINE)
        finally:
            running.kill()
    assert running.returncode in (130, -signal.SIGINT)
    assert "was cancelled" in error
    assert "Traceback" not in error
    wait_until(lambda: not processes_with(str(tmp_path)), "the workers to be gone")


def test_a_killed_program_ends_its_workers(tmp_path: Path) -> None:
    body = """
    env.set_parallelism(2)
    env.from_sequence(1, 10**12).map(lambda x: print("working", flush=True) if x % 100000 == 1 else x).print()
    env.execute("endless")
    """
    script = write_job(tmp_path, "killed", body)
    running = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    running.stdout.readline()
    running.kill()
    running.communicate(timeout=DEADLINE)
    wait_until(lambda: not processes_with(str(tmp_path)), "the workers to be gone")


def test_a_failing_job_shows_the_users_traceback_first(tmp_path: Path) -> None:
    body = """
    def halve(x):
        return 10 // x

    env.from_collection([5, 2, 0]).map(halve).print()
    env.execute("bug")
    """
    script = write_job(tmp_path, "bug", body)
    done = ran(script, status=1)
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith("in halve")
    assert "ZeroDivisionError" in done.stderr
    assert "on the record 0" in done.stderr
    assert "millstream/" not in done.stderr


def test_counters_and_accumulators_reach_the_result(tmp_path: Path) -> None:
    body = """
    from millstream.datastream import IntCounter, MapFunction

    class Counting(MapFunction):
        def open(self, runtime_context):
            self.evens = IntCounter()
            runtime_context.add_accumulator("evens", self.evens)
            self.seen = runtime_context.get_metrics_group().counter("seen")

        def map(self, value):
            self.seen.inc()
            self.evens.add(value % 2 == 0)
            return value

    env.set_parallelism(2)
    env.from_sequence(1, 1001).map(Counting()).name("counting").filter(lambda x: False).print()
    result = env.execute()
    print(result.get_accumulator_result("evens"), result.get_accumulator_result("counting.seen"))
    """
    script = write_job(tmp_path, "counting", body)
    done = ran(script)
    assert done.stdout.split() == ["500", "1001"]
