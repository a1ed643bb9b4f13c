"""Who may do what over REST: the cluster's secret, tokens with roles, client certificates, rates, and the audit log."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import http.client
import json
import shutil
import socket
import ssl
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import certificates
import pytest
from dispatcher_fixtures import Http, configuration, dispatching, eventually, graph, running, wheel
from waiting import DEADLINE

from millstream.cli.rest import RestClient, RestError
from millstream.core.clock import SystemClock
from millstream.core.errors import ConfigurationError, MillstreamError
from millstream.core.services import challenge
from millstream.core.services.cluster_secret import ClusterSecret, make_secret_file
from millstream.core.services.identity import client_context, identity, user_name
from millstream.core.settings.configuration import Configuration
from millstream.dispatcher.audit import Audit
from millstream.dispatcher.callers import Caller, Credential, Role
from millstream.dispatcher.rest.authentication import Authentication, RefusedCredentials, Shown
from millstream.dispatcher.rest.rates import RateLimit
from millstream.dispatcher.rest.tokens import TokensFile, token_line

SECRET = "the secret of this very cluster"
TOKENS = {"looker": Role.READ, "operator": Role.OPERATE, "author": Role.SUBMIT}
JOB = "0" * 32
ROUTES = [
    ("GET", "/overview", Role.READ), ("GET", "/jobs", Role.READ), ("GET", "/jobmanager/logs", Role.READ),
    ("GET", "/openapi.json", Role.READ), ("GET", "/jars", Role.READ), ("GET", f"/v1/jobs/{JOB}", Role.READ),
    ("PATCH", f"/jobs/{JOB}", Role.OPERATE), ("POST", f"/jobs/{JOB}/savepoints", Role.OPERATE),
    ("POST", f"/jobs/{JOB}/stop", Role.OPERATE), ("POST", f"/jobs/{JOB}/checkpoints", Role.OPERATE),
    ("POST", "/savepoint-disposal", Role.OPERATE), ("POST", "/jars/upload", Role.SUBMIT),
    ("GET", "/snapshots?path=/x", Role.READ), ("GET", "/snapshots/rows?path=/x&operator=o&state=s", Role.OPERATE),
    ("GET", "/snapshots/diff?first=/x&second=/x", Role.OPERATE), ("GET", "/jobmanager/thread-dump", Role.READ),
    ("POST", "/jars/x.whl/run", Role.SUBMIT), ("GET", "/jars/x.whl/plan", Role.SUBMIT),
    ("POST", "/wheels/x.whl/plan", Role.SUBMIT), ("DELETE", "/v1/wheels/x.whl", Role.SUBMIT),
    ("PUT", f"/jobs/{JOB}/resource-requirements", Role.OPERATE), ("PATCH", f"/jobs/{JOB}/rescaling", Role.OPERATE),
    ("GET", f"/jobs/{JOB}/vertices/{JOB}/hot-keys", Role.OPERATE),
]  # fmt: skip
FOR_ANYONE = {"GET /challenge", "GET /healthz", "GET /readyz", "GET /whoami"}
OPERATING = {
    "PATCH /jobs/{jobid}", "PATCH /jobs/{jobid}/rescaling", "PUT /jobs/{jobid}/resource-requirements",
    "POST /jobs/{jobid}/savepoints", "POST /jobs/{jobid}/stop", "POST /jobs/{jobid}/checkpoints",
    "POST /savepoint-disposal", "GET /snapshots/rows", "GET /snapshots/diff",
    "GET /jobs/{jobid}/vertices/{vertexid}/hot-keys", "POST /applications/{applicationid}/cancel",
    "GET /jobs/{jobid}/yarn-cancel", "GET /jobs/{jobid}/yarn-stop", "PATCH /jobs/{jobid}/clientHeartbeat",
    "DELETE /datasets/{datasetid}", "POST /jobmanager/profiler", "POST /taskmanagers/{taskmanagerid}/profiler",
}  # fmt: skip
RUNNING_CODE = {
    f"{method} {path}"
    for root, one in (("/jars", "/jars/{jarid}"), ("/wheels", "/wheels/{wheelid}"))
    for method, path in (
        ("POST", f"{root}/upload"), ("DELETE", one), ("POST", f"{one}/run"), ("GET", f"{one}/plan"),
        ("POST", f"{one}/plan"), ("POST", f"{one}/run-application"),
    )
}  # fmt: skip


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def tokens_file(tmp_path: Path) -> Path:
    """In which each token is its name twice."""
    file = tmp_path / "tokens"
    file.touch(0o600)
    file.write_text("# who may do what\n\n" + "".join(token_line(n, r, n * 2) for n, r in TOKENS.items()))
    return file


def client(address: str, **options: str) -> RestClient:
    host, _, port = address.rpartition(":")
    values = {key.replace("__", "."): value for key, value in options.items()}
    return RestClient(Configuration({"rest.address": host, "rest.port": port, **values}), timeout=DEADLINE)


async def test_every_route_demands_its_role(tmp_path: Path) -> None:
    options = configuration(tmp_path, **{"security.rest.auth.tokens-file": str(tokens_file(tmp_path))})
    async with running(options) as service:
        http = Http(service.rest_address)
        for method, path, needed in ROUTES:
            result = await http(method, path, status=401)
            assert f"needs the role '{needed.name.lower()}'" in result.json["errors"][0]
            assert result.headers["www-authenticate"].startswith("Bearer")
            for name, role in TOKENS.items():
                status = (await http(method, path, headers=bearer(name * 2))).status
                if role < needed:
                    assert status == 403, (method, path, name)
                else:
                    assert status not in (401, 403), (method, path, name)


async def test_a_route_that_does_not_only_read_is_in_the_lists_of_this_test(tmp_path: Path) -> None:
    async with running(configuration(tmp_path)) as service:
        paths = (await Http(service.rest_address)("GET", "/openapi.json")).json["paths"]
    roles = {f"{m.upper()} {path}": row["x-millstream-role"] for path, rows in paths.items() for m, row in rows.items()}
    named = {"anyone": FOR_ANYONE, "operate": OPERATING, "submit": RUNNING_CODE}
    for role, expected in named.items():
        assert {request for request, needed in roles.items() if needed == role} == expected
    readers = {request for request, needed in roles.items() if needed == "read"}
    assert readers == roles.keys() - set().union(*named.values())
    assert {request.partition(" ")[0] for request in readers} == {"GET"}


async def test_wrong_credentials_are_refused_even_where_none_are_needed(tmp_path: Path) -> None:
    options = configuration(tmp_path, **{"security.rest.auth.tokens-file": str(tokens_file(tmp_path))})
    async with running(options) as service:
        http = Http(service.rest_address)
        for given in ("Bearer", "Bearer looker", "Bearer lookerlooke", "Basic bG9va2VyOmxvb2tlcg==", "Bearer \xff",
                      "Millstream-Proof 1 2 3 4 5", "bearer  operator"):  # fmt: skip
            assert "errors" in (await http("GET", "/jobs", headers={"Authorization": given}, status=401)).json
        await http("GET", "/jobs", headers={"authorization": "bearer  lookerlooker"}, status=200)
        await http("GET", "/nowhere", status=404)


def test_the_document_lists_the_role_of_each_operation(tmp_path: Path) -> None:
    async def documents() -> list[dict[str, Any]]:
        found = []
        for secured in (False, True):
            options = configuration(tmp_path, **({"security.cluster.secret": SECRET} if secured else {}))
            async with running(options) as service:
                headers = bearer(ClusterSecret(SECRET).rest_token("read")) if secured else {}
                found.append((await Http(service.rest_address)("GET", "/openapi.json", headers=headers)).json)
        return found

    plain, secured = asyncio.run(documents())
    assert secured["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    for document, demanded in ((plain, []), (secured, [{"bearer": ["operate"]}])):
        cancel = document["paths"]["/jobs/{jobid}"]["patch"]
        assert (cancel["x-millstream-role"], cancel["security"]) == ("operate", demanded)
        assert document["paths"]["/jars/{jarid}/plan"]["get"]["x-millstream-role"] == "submit"


async def test_the_command_line_is_let_in_by_the_secret_and_believes_only_who_has_it(tmp_path: Path) -> None:
    make_secret_file(tmp_path / "secret")
    make_secret_file(tmp_path / "other")
    named = {"security.cluster.secret-file": str(tmp_path / "secret")}
    other = {"security.cluster.secret-file": str(tmp_path / "other")}
    async with running(configuration(tmp_path, **named)) as service:
        address = service.rest_address
        assert await asyncio.to_thread(client(address, **named).get, "/jobs") == {"jobs": []}
        with pytest.raises(RestError, match="could not be found"):
            await asyncio.to_thread(client(address, **named).patch, f"/jobs/{JOB}?mode=cancel")
        with pytest.raises(MillstreamError, match="does not know the cluster's secret"):
            await asyncio.to_thread(client(address, **other).get, "/jobs")
        with pytest.raises(MillstreamError, match=r"set 'security\.cluster\.secret-file' as the cluster has it"):
            await asyncio.to_thread(client(address).get, "/jobs")
    async with running(configuration(tmp_path)) as service:  # it serves everyone, but has no secret to show
        with pytest.raises(MillstreamError, match="does not know the cluster's secret"):
            await asyncio.to_thread(client(service.rest_address, **named).get, "/jobs")


async def test_tokens_of_the_secret_have_roles_and_the_secret_is_none(tmp_path: Path) -> None:
    async with running(configuration(tmp_path, **{"security.cluster.secret": SECRET})) as service:
        http, secret = Http(service.rest_address), ClusterSecret(SECRET)
        await http("GET", "/jobs", headers=bearer(SECRET), status=401)
        await http("PATCH", f"/jobs/{JOB}", headers=bearer(secret.rest_token("read")), status=403)
        await http("PATCH", f"/jobs/{JOB}", headers=bearer(secret.rest_token("operate")), status=404)
        await http("POST", "/jars/upload", headers=bearer(secret.rest_token("operate")), status=403)
        await http("POST", "/jars/upload", headers=bearer(secret.rest_token("submit")), status=400)


async def test_a_client_sends_the_token_in_its_file(tmp_path: Path) -> None:
    options = configuration(tmp_path, **{"security.rest.auth.tokens-file": str(tokens_file(tmp_path))})
    own = tmp_path / "token"
    own.touch(0o600)
    own.write_text("lookerlooker\n")
    async with running(options) as service:
        reader = client(service.rest_address, **{"security.rest.auth.token-file": str(own)})
        assert await asyncio.to_thread(reader.get, "/jobs") == {"jobs": []}
        with pytest.raises(RestError, match=r"needs the role 'operate', and the token of looker is for 'read' only"):
            await asyncio.to_thread(reader.patch, f"/jobs/{JOB}")


def test_tokens_are_read_again_when_the_file_changes_and_never_when_others_may(tmp_path: Path) -> None:
    file = tokens_file(tmp_path)
    known = Authentication(Configuration({"security.rest.auth.tokens-file": str(file)}), SystemClock())
    assert known.caller(Shown("Bearer authorauthor")).role is Role.SUBMIT
    file.write_text(token_line("looker", Role.READ, "a new one"))
    assert known.caller(Shown("Bearer a new one")).name == "looker"
    with pytest.raises(RefusedCredentials):
        known.caller(Shown("Bearer authorauthor"))
    file.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        known.caller(Shown("Bearer a new one"))


@pytest.mark.parametrize(
    "line", ["looker", "looker read", "looker admin " + "0" * 64, "looker read 123", "looker anyone " + "0" * 64]
)
def test_a_line_that_is_no_token_is_named(tmp_path: Path, line: str) -> None:
    file = tokens_file(tmp_path)
    file.write_text(f"# first\n{line}\n")
    with pytest.raises(ConfigurationError, match=r"tokens-file'.*line 2 .*read, operate, submit"):
        TokensFile(str(file)).all()


def test_the_file_holds_no_token(tmp_path: Path) -> None:
    text = tokens_file(tmp_path).read_text()
    assert "lookerlooker" not in text
    assert hashlib.sha256(b"lookerlooker").hexdigest() in text


def test_a_client_has_its_rate_and_twice_as_much_at_once() -> None:
    limit = RateLimit(8, 2)
    assert sum(limit.wait("a", 0.0) == 0 for _ in range(50)) == 16
    assert 0 < limit.wait("a", 0.0) <= 0.125
    assert limit.wait("b", 0.0) == 0
    assert sum(limit.wait("a", 1.0) == 0 for _ in range(50)) == 8
    assert sum(limit.wait("a", 100.0) == 0 for _ in range(50)) == 16
    limit.wait("b", 100.0)
    limit.wait("c", 100.0)  # the one with the oldest request is forgotten
    assert limit.wait("a", 100.0) == 0
    assert all(RateLimit(0, 2).wait("a", 0.0) == 0 for _ in range(100))


async def test_too_many_requests_are_refused_and_other_clients_are_served(tmp_path: Path) -> None:
    options = {"rest.rate-limit": "1", "security.cluster.secret": SECRET}
    async with running(configuration(tmp_path, **options)) as service:
        http = Http(service.rest_address)
        statuses = [(await http("GET", "/jobs")).status for _ in range(2)]
        assert statuses == [401, 401]
        responses = [await http("GET", "/jobs") for _ in range(20)]
        refused = next(result for result in responses if result.status == 429)
        assert "rest.rate-limit" in refused.json["errors"][0]
        assert int(refused.headers["retry-after"]) >= 1
        token = ClusterSecret(SECRET).rest_token("read")
        await http("GET", f"/challenge?nonce={'0' * 32}&token={challenge.name_of_token(token)}", status=200)
        await http("GET", "/jobs", headers=bearer(ClusterSecret(SECRET).rest_token("read")), status=200)


async def test_what_was_done_is_in_a_file_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    options = configuration(tmp_path, **{
        "security.cluster.secret": SECRET, "env.log.dir": str(folder),
        "security.rest.auth.tokens-file": str(tokens_file(tmp_path)),
    })  # fmt: skip
    async with dispatching(options) as dispatcher:
        job = graph()
        await dispatcher.submit(job)
        http = dispatcher.http
        await http("PATCH", f"/jobs/{job.job_id}?mode=cancel", headers=bearer("lookerlooker"), status=403)
        await http("PATCH", f"/jobs/{job.job_id}?mode=cancel", headers=bearer("operatoroperator"), status=202)
        await http("GET", "/jobs", headers=bearer("lookerlooker"), status=200)
        await http("POST", "/jars/upload?programArg=password", status=401)
        await http("GET", "/jobmanager/logs/audit-dispatcher.log", headers=bearer("authorauthor"), status=404)
    file = folder / "audit-dispatcher.log"
    assert file.stat().st_mode & 0o777 == 0o600
    events = [json.loads(line) for line in file.read_text().splitlines()]
    seen = [(e["action"], e.get("who", ""), e["role"], e["outcome"].partition(":")[0]) for e in events]
    user = seen[0][1]
    assert user
    assert seen == [
        ("submit", user, "submit", "done"), ("cancel", "looker", "read", "refused"),
        ("cancel", "operator", "operate", "done"), ("upload", "", "anyone", "refused"),
    ]  # fmt: skip
    assert {e.get("job") for e in events} == {job.job_id, None}
    assert all(e["from"].startswith("127.0.0.1:") and e["time"] for e in events)
    assert events[2]["request"] == f"PATCH /jobs/{job.job_id}"
    text = file.read_text()
    assert not any(secret in text for secret in (SECRET, "operatoroperator", "password"))


@pytest.mark.parametrize(("limit", "answered"), [("500", {401, 429}), ("0", {401})])
async def test_credentials_that_do_not_count_are_in_the_audit_log_and_not_too_often(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, limit: str, answered: set[int]
) -> None:
    tokens = {"security.rest.auth.tokens-file": str(tokens_file(tmp_path)), "rest.rate-limit": limit}
    options = configuration(tmp_path, **tokens)
    with caplog.at_level("INFO", "millstream.audit"):
        async with running(options) as service:
            http = Http(service.rest_address)
            asked = await asyncio.gather(*(http("GET", "/jobs", headers=bearer("guess")) for _ in range(60)))
            await http("GET", "/jobs", headers=bearer("lookerlooker"), status=200)
    statuses = [result.status for result in asked]
    assert set(statuses) == answered
    events = [json.loads(record.message) for record in caplog.records if record.name == "millstream.audit"]
    assert len(events) < len(asked)
    assert len(events) == statuses.count(401) or limit == "0"
    assert {(e["action"], e["role"], e["request"]) for e in events} == {("log in", "anyone", "GET /jobs")}
    assert all("not valid for this cluster" in e["outcome"] and "guess" not in e["outcome"] for e in events)


def test_who_looks_again_and_again_is_recorded_once_in_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = Audit(Configuration())
    with caplog.at_level("INFO", "millstream.audit"):
        for seconds in range(0, 1200, 5):
            monkeypatch.setattr(time, "monotonic", lambda now=float(seconds): now)
            for job in ("a", "b"):
                caller = Caller("alice", Credential.TOKEN, Role.OPERATE, f"127.0.0.1:{seconds}")
                audit.record_look("look at keys", caller, job, "", "GET /keys")
    seen = [json.loads(record.message)["job"] for record in caplog.records]
    assert seen == ["a", "b"] * 2


async def test_a_plan_runs_a_program_and_so_is_recorded_each_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "millstream.audit"):
        async with running(configuration(tmp_path)) as service:
            for _ in range(2):
                await Http(service.rest_address)("GET", "/jars/x.whl/plan")
    events = [json.loads(record.message) for record in caplog.records if record.name == "millstream.audit"]
    assert [event["action"] for event in events] == ["plan", "plan"]


async def test_without_a_folder_it_is_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "millstream.audit"):
        async with dispatching(configuration(tmp_path)) as dispatcher:
            await dispatcher.submit(graph())
    (event,) = (json.loads(record.message) for record in caplog.records if record.name == "millstream.audit")
    assert (event["action"], event["known by"]) == ("submit", "none")


async def test_a_standby_dispatcher_authenticates_and_the_leader_authenticates_again(tmp_path: Path) -> None:
    stored = {"high-availability.type": "file", "high-availability.storageDir": str(tmp_path / "ha")}
    secret = {"security.cluster.secret": SECRET}
    options = configuration(tmp_path, **stored, **secret)
    async with running(options) as leader, running(options) as standby:
        address = standby.rest_address

        async def is_led() -> bool:
            return (await Http(address)("GET", "/jobs", headers=bearer(token))).status == 200

        token = ClusterSecret(SECRET).rest_token("read")
        await eventually(is_led)
        assert leader.rest_address != address
        assert await asyncio.to_thread(client(address, **secret).get, "/jobs") == {"jobs": []}
        await Http(address)("GET", "/jobs", status=401)
        await Http(address)("PATCH", f"/jobs/{JOB}", headers=bearer(token), status=403)
        with pytest.raises(RestError, match="could not be found"):
            await asyncio.to_thread(client(address, **secret).patch, f"/jobs/{JOB}?mode=cancel")


@pytest.mark.process
async def test_a_wheel_that_is_run_over_rest_submits_with_the_secret(tmp_path: Path) -> None:
    make_secret_file(tmp_path / "secret")
    program = (
        "from millstream.datastream import StreamExecutionEnvironment\n"
        "def main():\n"
        "    env = StreamExecutionEnvironment.get_execution_environment()\n"
        "    env.from_collection([1]).print()\n"
        "    env.execute('a job')\n"
    )
    options = configuration(tmp_path, **{"security.cluster.secret-file": str(tmp_path / "secret")})
    secret = ClusterSecret((tmp_path / "secret").read_text().strip())
    async with running(options) as service:
        http = Http(service.rest_address)
        authorized = bearer(secret.rest_token("submit"))
        boundary = "b"
        file = 'name="jarfile"; filename="tinyjob-1.0-py3-none-any.whl"'
        head = f"--{boundary}\r\nContent-Disposition: form-data; {file}"
        form = f"{head}\r\n\r\n".encode() + wheel({"tinyjob.py": program}) + f"\r\n--{boundary}--\r\n".encode()
        kind = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        uploaded = await http("POST", "/jars/upload", form, {**authorized, **kind}, status=200)
        name = uploaded.json["filename"].rpartition("/")[2]
        ran = await http("POST", f"/jars/{name}/run", {}, authorized, status=200)
        assert len(ran.json["jobid"]) == 32


@pytest.mark.process
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make certificates")
async def test_a_client_certificate_opens_the_api(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        certificates.make_authority(tmp_path, name)
    certificates.make_certificate(tmp_path, "service", "ours")
    certificates.make_certificate(tmp_path, "stranger", "theirs")
    tls = {
        "security.ssl.rest.enabled": "true", "security.ssl.rest.cert": str(tmp_path / "service.pem"),
        "security.ssl.rest.key": str(tmp_path / "service.key"), "security.ssl.rest.ca": str(tmp_path / "ours.pem"),
        "security.ssl.rest.authentication-enabled": "true",
    }  # fmt: skip
    stranger = {
        **tls, "security.ssl.rest.cert": str(tmp_path / "stranger.pem"),
        "security.ssl.rest.key": str(tmp_path / "stranger.key"),
    }  # fmt: skip
    folder = tmp_path / "log"
    folder.mkdir()
    async with running(configuration(tmp_path, **tls, **{"env.log.dir": str(folder)})) as service:
        address = service.rest_address
        assert await asyncio.to_thread(client(address, **tls).get, "/jobs") == {"jobs": []}
        with pytest.raises(RestError, match="could not be found"):
            await asyncio.to_thread(client(address, **tls).patch, f"/jobs/{JOB}")
        with pytest.raises(MillstreamError, match="cannot reach the cluster"):
            await asyncio.to_thread(client(address, **stranger).get, "/jobs")
        without = {**tls, "security.ssl.rest.authentication-enabled": "false"}
        with pytest.raises(MillstreamError, match="cannot reach the cluster"):
            await asyncio.to_thread(client(address, **without).get, "/jobs")
    event = json.loads((folder / "audit-dispatcher.log").read_text())
    assert (event["who"], event["known by"]) == ("service", "certificate")
    with pytest.raises(ConfigurationError, match=r"security\.ssl\.rest\.enabled"):
        async with running(configuration(tmp_path, **{"security.ssl.rest.authentication-enabled": "true"})):
            pass


class LocalConnection(http.client.HTTPConnection):
    """Over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=DEADLINE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(DEADLINE)
        self.sock.connect(str(self._path))


def locally(path: Path, method: str, target: str, headers: dict[str, str] | None = None) -> int:
    connection = LocalConnection(path)
    with contextlib.closing(connection):
        connection.request(method, target, headers=headers or {})
        response = connection.getresponse()
        response.read()
        return response.status


@pytest.fixture
def socket_file() -> Iterator[Path]:
    """In a folder with a short name."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "rest.sock"


async def test_the_user_of_the_service_needs_no_token_on_its_unix_socket(tmp_path: Path, socket_file: Path) -> None:
    (tmp_path / "log").mkdir()
    options = configuration(tmp_path, **{
        "security.cluster.secret": SECRET, "rest.unix-socket": str(socket_file), "env.log.dir": str(tmp_path / "log"),
    })  # fmt: skip
    async with running(options):
        assert stat.S_IMODE((await asyncio.to_thread(socket_file.stat)).st_mode) == 0o600
        assert await asyncio.to_thread(locally, socket_file, "GET", "/jobs") == 200
        assert await asyncio.to_thread(locally, socket_file, "PATCH", f"/jobs/{JOB}") == 404
        assert await asyncio.to_thread(locally, socket_file, "GET", "/jobs", bearer("wrong")) == 401
    assert not await asyncio.to_thread(socket_file.exists)
    events = [json.loads(line) for line in (tmp_path / "log" / "audit-dispatcher.log").read_text().splitlines()]
    assert (events[0]["action"], events[0]["who"], events[0]["known by"]) == ("cancel", user_name(), "cluster secret")


async def test_a_socket_that_a_crash_left_is_replaced_and_one_that_is_served_stays(
    tmp_path: Path, socket_file: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(socket_file))
    options = configuration(tmp_path, **{"rest.unix-socket": str(socket_file)})
    async with running(options):
        async with running(options):
            assert await asyncio.to_thread(locally, socket_file, "GET", "/jobs") == 200
        assert await asyncio.to_thread(locally, socket_file, "GET", "/jobs") == 200


async def test_a_unix_socket_where_others_may_write_is_refused(tmp_path: Path, socket_file: Path) -> None:
    socket_file.parent.chmod(0o777)
    with pytest.raises(ConfigurationError, match=r"rest\.unix-socket"):
        async with running(configuration(tmp_path, **{"rest.unix-socket": str(socket_file)})):
            pass


async def test_through_a_dispatcher_that_stands_by_its_user_is_known_to_the_leader(
    tmp_path: Path, socket_file: Path
) -> None:
    stored = {"high-availability.type": "file", "high-availability.storageDir": str(tmp_path / "ha")}
    options = configuration(tmp_path, **stored, **{"security.cluster.secret": SECRET})
    async with running(options), running(options.merged({"rest.unix-socket": str(socket_file)})):

        async def is_served() -> bool:
            return await asyncio.to_thread(locally, socket_file, "GET", "/jobs") == 200

        await eventually(is_served)
        assert await asyncio.to_thread(locally, socket_file, "PATCH", f"/jobs/{JOB}") == 404


async def test_a_server_shows_that_it_knows_a_token_and_gives_none_away(tmp_path: Path) -> None:
    options = configuration(tmp_path, **{
        "security.cluster.secret": SECRET, "security.rest.auth.tokens-file": str(tokens_file(tmp_path)),
    })  # fmt: skip
    nonce = "ab" * 16
    async with running(options) as service:
        http = Http(service.rest_address)
        for token in ("lookerlooker", ClusterSecret(SECRET).rest_token("submit")):
            target = f"/challenge?nonce={nonce}&token={challenge.name_of_token(token)}"
            shown = (await http("GET", target, status=200)).json["proof"]
            assert shown == challenge.proof(challenge.hash_of(token), nonce)
            await http("GET", "/jobs", headers=bearer(shown), status=401)
        for name, number, status in (
            ("0" * 16, nonce, 404), ("submit.x", nonce, 404), ("submit.\u0663", nonce, 404), ("", nonce, 404),
            ("0" * 16, "", 400), ("0" * 16, "short", 400), ("0" * 16, "a" * 200, 400),
        ):  # fmt: skip
            query = urlencode({"nonce": number, "token": name})
            await http("GET", f"/challenge?{query}", status=status)


async def test_a_token_of_the_secret_expires(tmp_path: Path) -> None:
    secret, now = ClusterSecret(SECRET), round(time.time())
    async with running(configuration(tmp_path, **{"security.cluster.secret": SECRET})) as service:
        http = Http(service.rest_address)
        await http("GET", "/jobs", headers=bearer(secret.rest_token("read", now + 1000)), status=200)
        expired = await http("GET", "/jobs", headers=bearer(secret.rest_token("read", now - 10)), status=401)
        assert "expired" in expired.json["errors"][0]
        role, _, seal = secret.rest_token("read", now - 10).split(".")
        for forged in (f"{role}.{now + 1000}.{seal}", f"submit.{now + 1000}.{seal}", f"{role}.{'9' * 40}.{seal}"):
            await http("GET", "/jobs", headers=bearer(forged), status=401)


async def test_tls_of_the_secret_and_plain_requests_share_a_port(tmp_path: Path) -> None:
    secret = {"security.cluster.secret": SECRET}
    own = identity(Configuration(secret))
    assert own is not None
    async with running(configuration(tmp_path, **secret)) as service, asyncio.timeout(DEADLINE):
        host, _, port = service.rest_address.rpartition(":")
        await Http(service.rest_address)("GET", "/healthz", status=200)
        for size in (1, 7, 100_000):  # whatever pieces the first message comes in
            reader, writer = await asyncio.open_connection(host, int(port))
            to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = client_context(own).wrap_bio(to_client, to_server, server_hostname=own.name)
            request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            result, asked = b"", False
            while True:
                try:
                    if not asked:
                        tls.do_handshake()
                        tls.write(request)
                        asked = True
                    result += tls.read(65536)
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLZeroReturnError:
                    break
                data = to_server.read()
                for at in range(0, len(data), size):
                    writer.write(data[at : at + size])
                    await writer.drain()
                    await asyncio.sleep(0)
                if b"healthy" in result:
                    break
                to_client.write(await reader.read(65536))
            assert result.startswith(b"HTTP/1.1 200 ")
            writer.close()
