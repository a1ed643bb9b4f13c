"""The state browser's side of the server: what may be looked into, by whom, and within which bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema
import pytest
from dispatcher_fixtures import Http, configuration, running
from snapshot_maker import Maker

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import JobId
from millstream.core.jobs.states import JobStatus
from millstream.core.records import types as t
from millstream.core.settings.configuration import Configuration
from millstream.core.snapshot import StateTypes
from millstream.dispatcher.rest.state_browser import RowsWanted, StateBrowser, TooMuchError
from millstream.dispatcher.snapshot_folders import TakenSnapshots, allowed_directories, pointer_within


def snapshot(folder: Path, **counts: int) -> str:
    maker = Maker(folder, rows_per_file=2)
    maker.operator("counter", maker.values("counts", counts, StateTypes(t.STRING, t.LONG)))
    return maker.finish().location.removeprefix("file://")


@asynccontextmanager
async def browsing(tmp_path: Path, folder: Path, **options: str) -> AsyncIterator[Http]:
    given = {"execution.checkpointing.savepoint-dir": str(folder), **options}
    async with running(configuration(tmp_path, **given)) as service:
        yield Http(service.rest_address)


async def test_listing_rows_and_differences(tmp_path: Path) -> None:
    folder = tmp_path / "savepoints"
    first = snapshot(folder, a=1, b=2, c=3, d=4, e=5)
    second = snapshot(folder, a=1, b=7, f=6)
    async with browsing(tmp_path, folder) as http:
        document = (await http("GET", "/openapi.json")).json["paths"]

        async def get(route: str, /, **query: str | int) -> Any:
            asked = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
            response = (await http("GET", f"{route}?{asked}", status=200)).json
            shape = document[route]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            jsonschema.validate(response, shape)
            return response

        listed = await get("/snapshots", path=first)
        assert listed == await get("/snapshots", path=f"file://{first}/_metadata.json")
        assert [s["name"] for o in listed["operators"] for s in o["states"]] == ["counts"]
        state = {"path": first, "operator": "counter", "state": "counts"}
        whole = await get("/snapshots/rows", **state)
        assert (whole["total"], whole["truncated"]) == (5, False)
        assert {row["key"]: row["value"] for row in whole["rows"]} == dict(zip("abcde", range(1, 6), strict=True))
        pages = [await get("/snapshots/rows", **state, offset=offset, limit=2) for offset in (0, 2, 4, 6)]
        assert [row for page in pages for row in page["rows"]] == whole["rows"]
        assert [page["truncated"] for page in pages] == [True, True, False, False]
        of_key = await get("/snapshots/rows", **state, key="c")
        assert of_key["rows"] == [{"key": "c", "value": 3}]
        differing = await get("/snapshots/diff", first=first, second=second)
        (changed,) = differing["operators"][0]["states"]
        assert (changed["added"], changed["removed"], changed["changed"]) == (1, 3, 1)

        for path, status, reason in (
            ("/snapshots", 400, "path: it is missing"),
            (f"/snapshots?path={quote(str(tmp_path))}", 404, "in none of the directories"),
            (f"/snapshots?path={quote(str(folder))}/..", 404, "in none of the directories"),
            ("/snapshots?path=/etc/passwd", 404, "in none of the directories"),
            (f"/snapshots?path={quote(str(folder / 'none'))}", 400, "none"),
            (f"/snapshots/rows?path={quote(first)}&operator=x&state=counts", 400, "has no operator 'x'"),
            (f"/snapshots/rows?path={quote(first)}&operator=counter&state=counts&limit=0", 400, "limit"),
            (f"/snapshots/rows?path={quote(first)}&operator=counter&state=counts&key=a&offset=1", 400, "offset"),
        ):
            assert reason in (await http("GET", path, status=status)).json["errors"][0], path
    async with browsing(tmp_path, folder, **{"web.state-browser.enabled": "false"}) as http:
        response = await http("GET", f"/snapshots?path={quote(first)}", status=404)
        assert "web.state-browser.enabled" in response.json["errors"][0]


def test_only_the_directories_of_snapshots_are_open(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside / "job" / "chk-1", outside):
        folder.mkdir(parents=True)
    (inside / "link").symlink_to(outside)
    roots = [str(inside), "s3://key:secret@bucket/checkpoints?region=x"]
    for location in (inside / "job" / "chk-1", f"file://{inside}/job/chk-1/", f"{inside}/job/../job/chk-1"):
        assert pointer_within(str(location), roots) is not None, location
    for location in (
        inside, outside, f"{inside}/../outside", f"{inside}/link", f"file://{inside}/%2e%2e/outside", f"{inside}x/y",
        "/etc/passwd", "", ".", "s3://bucket/checkpoints", "s3://bucket/checkpoints2/a", "s3://other/checkpoints/a",
        "s3://bucket/checkpoints/../secrets", "s3://bucket/checkpoints/%2E%2E/secrets", "a\0b", "http://[",
    ):  # fmt: skip
        assert pointer_within(str(location), roots) is None, location
    assert pointer_within("s3://bucket/checkpoints/a/chk-1", roots) == (
        "s3://key:secret@bucket/checkpoints/a/chk-1?region=x"
    )
    mine = "s3://mine:x@evil/checkpoints/a"
    assert pointer_within(mine, roots) is None, "the cluster's credentials are not sent anywhere"

    taken, mine = TakenSnapshots(most=1), str(outside)
    for location in ("/another/savepoint", mine):
        taken.add(location)
    for location in (mine, f"file://{outside}/", f"{outside}/_metadata.json", f"{inside}/link"):
        assert pointer_within(location, roots, taken) is not None, location
    for location in (str(tmp_path), f"{outside}2", f"{outside}/../other", f"{outside}/a/b", "/another/savepoint"):
        assert pointer_within(location, roots, taken) is None, location
    outside.rmdir()
    outside.symlink_to(tmp_path)
    assert pointer_within(mine, roots, taken) is None, "it is another folder now"

    job = JobDetails(
        JobId("j"), "j", JobStatus.RUNNING, configuration={"execution.checkpointing.dir": "/of/job"},
        checkpoint_directory="/of/job/j",
    )  # fmt: skip
    options = {"execution.checkpointing.dir": "/of/cluster", "io.tmp.dirs": "/tmp"}
    assert allowed_directories(options, [job]) == ["/of/cluster", "/of/job", "/of/job/j"]


def test_what_takes_too_long_or_too_much_is_given_up(tmp_path: Path) -> None:
    location = snapshot(tmp_path / "s", a=1, b=2, c=3, d=4)
    wanted = RowsWanted("counter", "counts", None, 0, 10)
    small = StateBrowser(Configuration({"web.state-browser.max-size": "10 b"}))
    with pytest.raises(TooMuchError, match=r"web\.state-browser\.max-size.*`millstream state`"):
        small.rows(location, wanted)
    with pytest.raises(TooMuchError, match=r"a snapshot has .*max-size"):
        small.differences(location, location, 1)
    times = iter(range(0, 10_000, 100))
    slow = StateBrowser(Configuration(), now=lambda: float(next(times)))
    with pytest.raises(TooMuchError, match=r"longer than web\.state-browser\.timeout \(30 s\)"):
        slow.rows(location, wanted)
    with pytest.raises(TooMuchError, match=r"web\.state-browser\.timeout"):
        slow.differences(location, location, 1)
