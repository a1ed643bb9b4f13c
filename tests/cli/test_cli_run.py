"""`run` against a fake cluster, with programs that only show what they were given."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import zipfile
from pathlib import Path
from typing import Any

import pytest
from waiting import DEADLINE
from wheels import write_wheel

pytestmark = pytest.mark.process

SHOW = """
import json, os, sys
print(json.dumps({
    "argv": sys.argv[1:],
    "configuration": json.loads(os.environ["MILLSTREAM_PROGRAM_CONFIGURATION"]),
    "artifacts": json.loads(os.environ["MILLSTREAM_PROGRAM_ARTIFACTS"]),
    "cwd": os.getcwd(),
}))
"""


NO_JOB = "the program ended and never called execute(): no job was run."


def shown(done: Any) -> dict[str, Any]:
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines()[-1].startswith(NO_JOB)
    response = json.loads(done.stdout)
    assert isinstance(response, dict)
    return response


def test_runs_a_file_with_its_options(cli: Any, fake_dispatcher: Any) -> None:
    (cli.home / "job.py").write_text(SHOW)
    done = cli(
        "run", "-d", "-p", "3", "-m", fake_dispatcher.address, "-Dpipeline.name=x", "job.py", "-p", "9", "--", "rest"
    )  # fmt: skip
    response = shown(done)
    assert response["argv"] == ["-p", "9", "--", "rest"]
    assert response["artifacts"] == []
    assert Path(response["cwd"]).samefile(cli.home)
    options = response["configuration"]
    dispatcher = fake_dispatcher.responses["GET /config"][1]["dispatcher-rpc-address"]
    assert f"{options['dispatcher.rpc.address']}:{options['dispatcher.rpc.port']}" == dispatcher
    assert options["execution.target"] == "remote"
    assert options["execution.attached"] == "false"
    assert options["parallelism.default"] == "3"
    assert options["pipeline.name"] == "x"


def test_runs_from_a_savepoint(cli: Any, fake_dispatcher: Any) -> None:
    (cli.home / "job.py").write_text(SHOW)
    prefix = "execution.state-recovery."

    def options(*arguments: str) -> dict[str, str]:
        configuration = shown(cli("run", "-m", fake_dispatcher.address, *arguments, "job.py"))["configuration"]
        return {key: value for key, value in configuration.items() if key.startswith(prefix)}

    assert options() == {}
    assert options("-s", "s3://bucket/sp", "-n", "--claimMode", "claim") == {
        f"{prefix}path": "s3://bucket/sp",
        f"{prefix}ignore-unclaimed-state": "true",
        f"{prefix}claim-mode": "CLAIM",
    }
    assert options("--fromSavepoint", "sp/1") == {f"{prefix}path": str(cli.home / "sp" / "1")}
    line = cli.fails("run", "-s", "x", "-claim", "LEGACY", "job.py", status=2)
    assert line.startswith("millstream run: Invalid value for '-claim' / '--claimMode'")


def test_runs_a_module_from_python_files(cli: Any, fake_dispatcher: Any) -> None:
    package = cli.home / "lib" / "shop"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "job.py").write_text(SHOW + "import extra")
    (cli.home / "extra.py").write_text("")
    done = cli("run", "-m", fake_dispatcher.address, "-pyfs", "lib,extra.py", "-pym", "shop.job", "a")
    response = shown(done)
    assert response["argv"] == ["a"]
    assert [a["name"] for a in response["artifacts"]] == ["lib.zip", "extra.py"]
    assert {a["kind"] for a in response["artifacts"]} == {"PYTHON_FILE"}
    assert set(fake_dispatcher.artifacts) == {a["sha256"] for a in response["artifacts"]}
    (cli.home / "other.py").write_text("")
    for options in (
        ["-pyfs", "lib,extra.py"],
        ["-D", "python.files=lib,extra.py"],
        ["-D", "python.files=other.py", "-pyfs", "lib,extra.py"],
    ):
        again = shown(cli("run", "-m", fake_dispatcher.address, *options, "-pym", "shop.job", "a"))
        assert again["artifacts"] == response["artifacts"]


def test_runs_a_wheel_in_an_environment_of_its_own(cli: Any, fake_dispatcher: Any) -> None:
    source = f"def main(arguments):\n    exec({SHOW!r})\n    assert arguments == ['x']\n    print(__file__)\n"
    wheel = write_wheel(cli.home, {"tinyjob.py": source}, entry="tinyjob:main")
    (cli.home / "tinyjob.py").write_text("raise Exception('this is not the one in the wheel')")
    with zipfile.ZipFile(cli.home / "data.zip", "w") as archive:
        archive.writestr("words.txt", "hello")
    done = cli("run", "-m", fake_dispatcher.address, "-pyarch", "data.zip#data", wheel.name, "x")
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines()[-1].startswith(NO_JOB)
    assert f"uploading {wheel.name}\nuploading data.zip" in done.stderr
    assert done.stderr.count("installing") == 1, "not each line that pip prints"
    response, file = done.stdout.splitlines()
    assert "environments" in file
    artifacts = json.loads(response)["artifacts"]
    assert [(a["name"], a["kind"]) for a in artifacts] == [(wheel.name, "WHEEL"), ("data.zip#data", "ARCHIVE")]
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() in fake_dispatcher.artifacts


def test_requirements_are_installed_from_a_folder_of_packages(cli: Any, fake_dispatcher: Any) -> None:
    packages = cli.home / "packages"
    packages.mkdir()
    wheel = write_wheel(packages, {"tinyjob.py": "ANSWER = 42"})
    (cli.home / "req.txt").write_text("tinyjob==1.0")
    (cli.home / "job.py").write_text(f"exec({SHOW!r})\nimport tinyjob\nprint(tinyjob.ANSWER)")
    done = cli("run", "-m", fake_dispatcher.address, "-pyreq", "req.txt#packages", "job.py")
    response, imported = done.stdout.splitlines()
    found = [(a["name"], a["kind"]) for a in json.loads(response)["artifacts"]]
    assert ("req.txt", "REQUIREMENTS") in found
    assert (wheel.name, "PACKAGE") in found
    assert imported == "42"


TWO_ENTRIES = "[millstream.jobs]\na = m:a\nb = m:b\n"


@pytest.mark.parametrize(
    ("entry_points", "options", "line"),
    [
        ("", [], "millstream run: tinyjob 1.0 names no entry point"),
        (TWO_ENTRIES, [], "millstream run: tinyjob 1.0 has several entry points: there are a (m:a), b (m:b); choose"),
        ("", ["-c", "not an entry"], "millstream run: 'not an entry' is not an entry point of tinyjob 1.0: it names"),
        (TWO_ENTRIES, ["-c", "c"], "millstream run: 'c' is not an entry point of tinyjob 1.0: there are a (m:a), b"),
    ],
)
def test_a_wheel_without_a_usable_entry_point(cli: Any, entry_points: str, options: list[str], line: str) -> None:
    wheel = write_wheel(cli.home, {"tinyjob.py": "", "tinyjob-1.0.dist-info/entry_points.txt": entry_points})
    assert cli.fails("run", "-m", "127.0.0.1:1", *options, wheel.name).startswith(line)


def test_files_that_cannot_be_run(cli: Any) -> None:
    (cli.home / "job.txt").write_text("")
    assert cli.fails("run", "job.txt").endswith("job.txt is neither a wheel (.whl) nor a Python file (.py)")
    (cli.home / "x-1.0-py3-none-any.whl").write_text("no zip")
    assert "is not a wheel" in cli.fails("run", "x-1.0-py3-none-any.whl")
    (cli.home / "job.py").write_text("")
    assert "python.files (-pyfs): there is no file" in cli.fails("run", "-pyfs", "nope", "job.py")
    assert "job.txt: expected a .py, .zip or .whl file, or a folder" in cli.fails("run", "-pyfs", "job.txt", "job.py")
    assert "-c names an entry point of a wheel" in cli.fails("run", "-c", "a:b", "job.py", status=2)
    assert "python.requirements (-pyreq): there is no file" in cli.fails("run", "-pyreq", "req.txt", "job.py")
    assert "python.requirements (-pyreq): there is no folder" in cli.fails("run", "-pyreq", "job.txt#nowhere", "job.py")


def test_the_cluster_is_named_when_it_cannot_be_reached(cli: Any, fake_cluster: Any) -> None:
    (cli.home / "job.py").write_text("")
    assert "cannot reach the cluster at 127.0.0.1:1:" in cli.fails("run", "-m", "127.0.0.1:1", "job.py")
    fake_cluster.responses["GET /config"] = (200, {"refresh-interval": 3000})
    assert "does not report where its dispatcher accepts jobs" in cli.fails("run", "-m", fake_cluster.address, "job.py")
    fake_cluster.responses["GET /config"] = (200, {"dispatcher-rpc-address": "127.0.0.1:1"})
    (cli.home / "lib.py").write_text("")
    done = cli("run", "-m", fake_cluster.address, "-pyfs", "lib.py", "job.py")
    assert done.returncode == 1
    uploading, line = done.stderr.splitlines()
    assert uploading == "uploading lib.py"
    assert line.startswith("millstream run: cannot upload lib.py: ")


def test_the_exit_status_is_the_programs(cli: Any, fake_dispatcher: Any) -> None:
    (cli.home / "job.py").write_text("import sys\nsys.exit(int(sys.argv[1]))")
    assert cli("run", "-m", fake_dispatcher.address, "job.py", "7").returncode == 7
    (cli.home / "bug.py").write_text("def f():\n    raise ValueError('mine')\nf()")
    done = cli("run", "-m", fake_dispatcher.address, "bug.py")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("ValueError: mine\n")
    assert "millstream" not in done.stderr


STREAM = """
import sys
from millstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1]).print()
"""


@pytest.mark.parametrize(
    ("program", "status", "message"),
    [
        ("print('nothing to do')", 1, NO_JOB),
        (STREAM, 1, NO_JOB),
        (f"{STREAM}\nsys.exit(0)", 1, NO_JOB),
        (f"{STREAM}\nprint(env.get_execution_plan())", 0, "the program only computed its plan"),
        ("import argparse\nargparse.ArgumentParser().parse_args(['--help'])", 0, ""),
    ],
)
def test_a_program_that_runs_no_job_is_reported(
    cli: Any, fake_dispatcher: Any, program: str, status: int, message: str
) -> None:
    (cli.home / "job.py").write_text(program)
    done = cli("run", "-m", fake_dispatcher.address, "job.py")
    assert done.returncode == status, done.stderr
    assert done.stderr.startswith(message)
    assert len(done.stderr.splitlines()) == bool(message)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_the_program_once(cli: Any, fake_dispatcher: Any, number: signal.Signals) -> None:
    (cli.home / "job.py").write_text(
        "import signal, sys\n"
        "def end(number, frame):\n    print('got', number, flush=True)\n    sys.exit(5)\n"
        "for n in (signal.SIGINT, signal.SIGTERM):\n    signal.signal(n, end)\n"
        "print('ready', flush=True)\nsignal.pause()\n"
    )
    process = cli.start("run", "-m", fake_dispatcher.address, "job.py")
    try:
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, number)
        output, errors = process.communicate(timeout=DEADLINE)
        assert (process.returncode, output, errors) == (5, f"got {number}\n", "")
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
