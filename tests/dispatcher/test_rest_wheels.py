"""Wheels over REST: uploading, refusing, listing, running and planning them in a process of their own."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import jsonschema
import pytest
from dispatcher_fixtures import Http, configuration, eventually, rest, running, wheel
from processes import is_alive, processes_with
from waiting import wait_until

from millstream.core.jobs.ids import new_id

NAME = "tinyjob-1.0-py3-none-any.whl"
PROGRAM = """
import os, sys
from millstream.datastream import StreamExecutionEnvironment


def execute():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_sequence(1, 9).map(lambda n: n).name("<script>").print()
    env.execute(" ".join(sys.argv[1:]) or "nameless")


def main():
    execute()


def main_with_arguments(arguments):
    assert arguments == sys.argv[1:]
    execute()


def buggy():
    def inner():
        raise ValueError("a bug in the job")

    inner()


def idle():
    print("nothing to do")


def endless():
    import time

    with open(sys.argv[1], "w") as file:
        file.write(str(os.getpid()))
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")


async def uploaded(http: Http, content: bytes | None = None, name: str = NAME) -> str:
    response = await http.upload(name, content or wheel({"tinyjob.py": PROGRAM}))
    assert response.status == 200, response
    assert response.json["status"] == "success"
    return Path(response.json["filename"]).name


@pytest.mark.process
async def test_upload_list_run_plan_delete(http: Http) -> None:
    jar = await uploaded(http)
    assert jar.endswith(f"_{NAME}")
    listing = (await http("GET", "/jars", status=200)).json
    assert listing["address"] == f"http://{http.address}"
    assert [(f["id"], f["name"]) for f in listing["files"]] == [(jar, NAME)]
    assert listing["files"][0]["entry"] == [{"name": "tinyjob:main", "description": "main"}]

    response = await http("POST", f"/jars/{jar}/run", {"programArgs": "'the first' job", "parallelism": 3})
    assert response.status == 200, response
    job = (await http("GET", f"/jobs/{response.json['jobid']}", status=200)).json
    assert (job["name"], job["vertices"][0]["parallelism"]) == ("the first job", 3)

    run = f"/v1/wheels/{jar}/run?programArg=a,b&entry-class=tinyjob:main_with_arguments"
    second = (await http("POST", run, status=200)).json["jobid"]
    assert (await http("GET", f"/jobs/{second}")).json["name"] == "a b"

    chosen = new_id()
    body = {"jobId": chosen, "programArgsList": ["chosen id"], "flinkConfiguration": {"pipeline.name": "x"}}
    assert (await http("POST", f"/jars/{jar}/run", body, status=200)).json == {"jobid": chosen, "applicationId": chosen}
    config = (await http("GET", f"/jobs/{chosen}/config", status=200)).json["execution-config"]
    assert config["user-config"]["pipeline.name"] == "x"
    assert "already submitted" in (await http("POST", f"/jars/{jar}/run", body, status=409)).json["errors"][0]

    own = new_id()
    as_application = {"applicationId": own, "programArgsList": ["of its own"]}
    response = await http("POST", f"/jars/{jar}/run-application", as_application, status=202)
    assert response.json == {"applicationid": own}
    assert (await http("GET", f"/applications/{own}", status=200)).json["name"] == "of its own"

    for method, parameters in (("GET", None), ("POST", {"parallelism": 2})):
        plan = (await http(method, f"/jars/{jar}/plan", parameters, status=200)).json["plan"]
        (node,) = plan["nodes"]
        assert "&lt;script&gt;" in node["description"]
        assert node["operator"] == node["description"], "all that Flink's dashboard shows of it"
    assert len((await http("GET", "/jobs")).json["jobs"]) == 4

    await http("DELETE", f"/wheels/{jar}", status=200)
    assert (await http("GET", "/jars")).json["files"] == []
    await http("DELETE", f"/wheels/{jar}", status=404)


@pytest.mark.process
async def test_arguments_and_credentials_are_not_seen_by_others(http: Http) -> None:
    program = """
import pathlib, sys
from millstream.datastream import StreamExecutionEnvironment
def main():
    own = ''.join(pathlib.Path(f'/proc/self/{name}').read_text() for name in ('cmdline', 'environ'))
    directory = StreamExecutionEnvironment.get_execution_environment().get_configuration().get_string(
        'execution.checkpointing.dir', '')
    raise ValueError(f"{sys.argv[1:]} {directory[-20:]} {'hidden argument' in own} {'verysecret' in own}")
"""
    jar = await uploaded(http, wheel({"tinyjob.py": program}))
    options = {"execution.checkpointing.dir": "s3://key:verysecret@b/c"}
    body = {"programArgsList": ["hidden argument", "--", "-x"], "flinkConfiguration": options}
    errors = (await http("POST", f"/jars/{jar}/plan", body, status=400)).json["errors"]
    assert errors[0] == "ValueError: ['hidden argument', '--', '-x'] //key:verysecret@b/c False False"


@pytest.mark.process
async def test_running_from_a_savepoint(http: Http) -> None:
    prefix = "execution.state-recovery."

    def expected(path: str) -> dict[str, str]:
        return {f"{prefix}path": path, f"{prefix}ignore-unclaimed-state": "true", f"{prefix}claim-mode": "CLAIM"}

    jar = await uploaded(http)

    async def options(query: str, body: dict[str, object]) -> dict[str, str]:
        job_id = (await http("POST", f"/jars/{jar}/run{query}", body, status=200)).json["jobid"]
        config = (await http("GET", f"/jobs/{job_id}/config")).json["execution-config"]["user-config"]
        return {key: value for key, value in config.items() if key.startswith(prefix)}

    body: dict[str, object] = {"savepointPath": "/sp/1", "allowNonRestoredState": True, "claimMode": "CLAIM"}
    assert await options("", body) == expected("/sp/1")
    for chosen in ({}, {"jobId": new_id()}):
        refused = await http("POST", f"/jars/{jar}/run", {**body, **chosen}, status=400)
        assert "/sp/1: was claimed by job" in "".join(refused.json["errors"])
    assert await options("", {**body, "savepointPath": "/sp/2", "jobId": new_id()}) == expected("/sp/2")
    query = "?savepointPath=/sp/3&allowNonRestoredState=true&restoreMode=claim"
    assert await options(query, {}) == expected("/sp/3")
    over = {"savepointPath": "/sp/4", "flinkConfiguration": {f"{prefix}path": "/other"}}
    assert await options("?allowNonRestoredState=false", over) == {f"{prefix}path": "/sp/4"}
    wrong = await http("POST", f"/jars/{jar}/run?allowNonRestoredState=1", {}, status=400)
    assert "neither true nor false" in wrong.json["errors"][0]


AFTER_SUBMITTING = """
import os, signal, sys
from millstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()

def execute():
    env.from_collection([1]).print()
    return env.execute()

def reads(): print(execute().get_net_runtime())

def leaves():
    execute()
    sys.exit(3)

def dies():
    execute()
    os.kill(os.getpid(), signal.SIGKILL)

def second_fails():
    execute()
    execute()
    env.from_collection([1]).map(5)

def collects(): list(env.from_collection([1]).execute_and_collect())
"""


@pytest.mark.process
async def test_once_a_job_is_submitted_its_id_is_the_answer(http: Http) -> None:
    jar = await uploaded(http, wheel({"tinyjob.py": AFTER_SUBMITTING}))
    schema = (await http("GET", "/openapi.json")).json["paths"]["/jars/{jarid}/run"]["post"]["responses"]["200"]

    async def run(entry: str) -> tuple[str, str]:
        response = await http("POST", f"/jars/{jar}/run", {"entryClass": f"tinyjob:{entry}"}, status=200)
        jsonschema.validate(response.json, schema["content"]["application/json"]["schema"])
        return response.json["jobid"], "\n".join(response.json["warnings"])

    ran = await asyncio.gather(*(run(entry) for entry in ("reads", "leaves", "dies", "second_fails")))
    for (job_id, warnings), reason in zip(
        ran, ("submitted detached", "ended with status 3", "ended by signal 9", "map: expected"), strict=True
    ):
        assert f"after it had submitted {job_id}" in warnings
        assert reason in warnings
    assert "submitted 2 jobs" in ran[3][1]
    jobs = {job["id"] for job in (await http("GET", "/jobs")).json["jobs"]}
    assert len(jobs) == 5
    assert {job_id for job_id, _ in ran} <= jobs

    refused = await http("POST", f"/jars/{jar}/run", {"entryClass": "tinyjob:collects"}, status=400)
    assert "was not submitted" in refused.json["errors"][0]
    assert len((await http("GET", "/jobs")).json["jobs"]) == 5


@pytest.mark.process
async def test_programs_that_fail(http: Http) -> None:
    jar = await uploaded(http)

    async def run(entry: str, **body: object) -> list[str]:
        response = await http("POST", f"/jars/{jar}/run", {"entryClass": entry, **body}, status=400)
        errors = response.json["errors"]
        assert isinstance(errors, list)
        return errors

    reason, traceback = await run("tinyjob:buggy")
    assert reason == "ValueError: a bug in the job"
    assert traceback.startswith("Traceback (most recent call last):")
    assert "in inner" in traceback
    assert "millstream/client" not in traceback
    assert "runpy" not in traceback
    assert "did not call execute()" in (await run("tinyjob:idle"))[0]
    assert "no 'absent' in tinyjob" in (await run("tinyjob:absent"))[0]
    assert "no module 'absent'; there are main" in (await run("absent:main"))[0]
    assert "is not an entry point" in (await run("rm -rf /"))[0]
    assert "unknown option 'rest.no'" in (await run("tinyjob:main", flinkConfiguration={"rest.no": "1"}))[0]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{", "is not JSON"),
        ("[1]", "is not a JSON object"),
        ({"parallelism": "many"}, "parallelism: 'many' is not a whole number"),
        ({"parallelism": 0}, "parallelism: '0' is not a whole number"),
        ({"parallelism": True}, "parallelism"),
        ({"entryClass": 5}, "entryClass: expected a string"),
        ({"programArgs": "'unfinished"}, "programArgs: No closing quotation"),
        ({"programArgsList": "a"}, "programArgsList: expected a list"),
        ({"jobId": "x"}, "jobId: 'x' is not a job id"),
        ({"flinkConfiguration": [1]}, "flinkConfiguration: expected an object"),
        ({"savepointPath": 5}, "savepointPath: expected a string"),
        ({"allowNonRestoredState": "yes"}, "allowNonRestoredState: expected true or false"),
        ({"savepointPath": "sp/1"}, "savepointPath: 'sp/1' is a relative path"),
        ({"claim-mode": "CLAIM"}, "claim-mode: there is no such field"),
        ({"claimMode": "LEGACY"}, "claimMode: 'LEGACY' is not one of NO_CLAIM, CLAIM"),
        ("x" * 2_000_000, "larger than"),
    ],
)
async def test_wrong_run_requests(http: Http, body: object, reason: str) -> None:
    jar = await uploaded(http)
    response = await http("POST", f"/jars/{jar}/run", body)
    assert response.status == (413 if reason == "larger than" else 400)
    assert reason in response.json["errors"][0]


def _zip(*members: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for member in members:
            archive.writestr(member, "Name: x\nVersion: 1\n")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "status", "reason"),
    [
        (NAME, b"not a zip at all", 400, "not a readable zip"),
        (NAME, _zip("a.py"), 400, "no .dist-info folder"),
        (NAME, _zip("x-1.dist-info/METADATA", "x-1.dist-info/WHEEL", "../../evil.py"), 400, "outside of the wheel"),
        (NAME, _zip("x-1.dist-info/METADATA", "x-1.dist-info/WHEEL", "/etc/evil"), 400, "outside of the wheel"),
        ("job.jar", _zip("a.py"), 400, "expected a name like"),
        ("../../evil.whl", _zip("a.py"), 400, "evil.whl is not a wheel: expected a name like"),
        (NAME, b"x" * 300_000, 413, "larger than web.upload.max-size"),
        (NAME, b"x" * 120_000, 413, "larger than web.upload.max-size"),
    ],
)
async def test_refused_uploads(tmp_path: Path, name: str, content: bytes, status: int, reason: str) -> None:
    async with rest(tmp_path, **{"web.upload.max-size": "100 kb"}) as http:
        response = await http.upload(name, content)
        assert response.status == status, response
        assert reason in response.json["errors"][0]
        assert list((tmp_path / "work" / "uploads").iterdir()) == []


async def test_malformed_forms(tmp_path: Path, http: Http) -> None:
    form = {"Content-Type": "multipart/form-data; boundary=b"}
    for body in (b"", b"nonsense", b"--b\r\nnonsense", b"--b\r\n\r\nx\r\n--b--\r\n"):
        response = await http("POST", "/jars/upload", body, form)
        assert response.status == 400, response
    many = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n' * 101
    response = await http("POST", "/jars/upload", many, form, status=400)
    assert "more than 100 parts" in response.json["errors"][0]
    wrong_field = await http.upload(NAME, wheel({"tinyjob.py": ""}), field="other-field")
    assert "form field 'jarfile'" in wrong_field.json["errors"][0]
    cut = b'--b\r\nContent-Disposition: form-data; name="jarfile"; filename="a-1-py3-none-any.whl"\r\n\r\nhalf'
    assert "one whole file" in (await http("POST", "/jars/upload", cut, form, status=400)).json["errors"][0]
    assert list((tmp_path / "work" / "uploads").iterdir()) == []


@pytest.mark.process
async def test_a_wheel_without_an_entry_point_needs_one_named(http: Http) -> None:
    jar = await uploaded(http, wheel({"tinyjob.py": PROGRAM}, entry=None))
    assert "names no entry point" in (await http("POST", f"/jars/{jar}/run", status=400)).json["errors"][0]
    await http("POST", f"/jars/{jar}/run?entry-class=tinyjob", status=200)


@pytest.mark.process
async def test_a_failed_install_is_pips_reason(http: Http) -> None:
    files = {"tinyjob.py": PROGRAM, "requirements.txt": "no-such-library-at-all==9\n"}
    jar = await uploaded(http, wheel(files))
    (error,) = (await http("POST", f"/jars/{jar}/run", status=400)).json["errors"]
    assert error.startswith(f"cannot install {NAME}: ")
    assert "no-such-library-at-all==9" in error


@pytest.mark.process
async def test_a_program_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    async with rest(tmp_path, **{"web.submit.timeout": "1500 ms"}) as http:
        jar = await uploaded(http)
        mark = tmp_path / "pid"
        body = {"entryClass": "tinyjob:endless", "programArgsList": [str(mark)]}
        response = await http("POST", f"/jars/{jar}/run", body, status=400)
        assert "web.submit.timeout" in response.json["errors"][0]
        assert await asyncio.to_thread(processes_with, str(mark)) == []


@pytest.mark.process
async def test_stopping_the_dispatcher_ends_running_programs(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    async with running(configuration(tmp_path)) as service:
        http = Http(service.rest_address)
        jar = await uploaded(http)
        body = {"entryClass": "tinyjob:endless", "programArgsList": [str(mark)]}
        response = asyncio.ensure_future(http("POST", f"/jars/{jar}/run", body))
        await eventually(lambda: mark.exists() and mark.read_text())
        await service.stop()
        await asyncio.wait([response])
        response.exception()
    await eventually(lambda: not is_alive(int(mark.read_text())))


@pytest.mark.process
async def test_a_program_ends_when_its_client_goes_away(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    async with running(configuration(tmp_path)) as service:
        jar = await uploaded(Http(service.rest_address))
        host, port = service.rest_address.split(":")
        body = json.dumps({"entryClass": "tinyjob:endless", "programArgsList": [str(mark)]})
        _, writer = await asyncio.open_connection(host, int(port))
        head = f"POST /jars/{jar}/run HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write((head + body).encode())
        await eventually(lambda: mark.exists() and mark.read_text())
        writer.close()
        await eventually(lambda: not is_alive(int(mark.read_text())))


@pytest.mark.process
def test_a_program_ends_with_a_dispatcher_that_is_killed(tmp_path: Path) -> None:
    """The program's process, started as the dispatcher does, by a parent that is killed."""
    mark = tmp_path / "pid"
    (tmp_path / "tinyjob.py").write_text(PROGRAM)
    parent = f"""
import os, subprocess, sys
theirs, ours = os.pipe()
command = [sys.executable, "-m", "millstream.client.program", "--entry", "tinyjob:endless", "--", {str(mark)!r}]
variables = {{**os.environ, "MILLSTREAM_PARENT_FD": str(theirs), "PYTHONPATH": {str(tmp_path)!r}}}
subprocess.run(command, env=variables, pass_fds=(theirs,), start_new_session=True)
"""
    dispatcher = subprocess.Popen([sys.executable, "-c", parent])
    try:
        wait_until(lambda: mark.exists() and mark.read_text(), "the program")
    finally:
        dispatcher.kill()
        dispatcher.wait()
    wait_until(lambda: not is_alive(int(mark.read_text())), "its end")


async def test_the_uploaded_wheels_have_a_limit_together(tmp_path: Path) -> None:
    content = wheel({"tinyjob.py": PROGRAM})
    limit = str(len(content) * 5 // 2)
    async with rest(tmp_path, **{"web.upload.max-total-size": limit}) as http:
        jars = [await uploaded(http, content) for _ in range(2)]
        await http("GET", f"/jars/{jars[0]}/plan?parallelism=none", status=400)  # it is used, whatever comes of it
        third = await uploaded(http, content)
        assert {f["id"] for f in (await http("GET", "/jars")).json["files"]} == {jars[0], third}
        larger = wheel({"tinyjob.py": PROGRAM, "more.py": os.urandom(4 * len(content)).hex()})
        refused = await http.upload(NAME, larger)
        assert refused.status == 413
        assert "web.upload.max-total-size" in refused.json["errors"][0]
        assert {f["id"] for f in (await http("GET", "/jars")).json["files"]} == {jars[0], third}


async def test_an_uploaded_wheel_that_is_unused_for_long_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "wheels"
    options = {"web.upload.retention": "1 h", "web.upload.dir": str(folder)}
    async with rest(tmp_path, **options) as http:
        jars = [await uploaded(http, wheel({"tinyjob.py": PROGRAM})) for _ in range(3)]
        for jar, ago in zip(jars, (3700, 3700, 3500), strict=True):
            os.utime(folder / jar, (time.time() - ago,) * 2)
        await http("GET", f"/jars/{jars[1]}/plan?parallelism=none", status=400)
        new = await uploaded(http, wheel({"tinyjob.py": PROGRAM}))
        assert {f["id"] for f in (await http("GET", "/jars")).json["files"]} == {jars[1], jars[2], new}


async def test_uploads_outlive_the_dispatcher_and_partial_ones_do_not(tmp_path: Path) -> None:
    options = configuration(tmp_path, **{"web.upload.dir": str(tmp_path / "wheels")})
    async with running(options) as service:
        jar = await uploaded(Http(service.rest_address))
    await asyncio.to_thread((tmp_path / "wheels" / ".partial-x").write_bytes, b"")
    async with running(options) as service:
        assert [f["id"] for f in (await Http(service.rest_address)("GET", "/jars")).json["files"]] == [jar]
    assert [path.name for path in (tmp_path / "wheels").iterdir()] == [jar]
