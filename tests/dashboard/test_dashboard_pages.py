"""Every page of the dashboard in a real Chromium, against a real cluster whose jobs flow, are backpressured, restart,
stall, fail and finish: what they show is there, nothing is said on the console, nothing is asked of other sites, and
axe finds no serious fault, in light and in dark. Pictures of all pages are left in `screenshots/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from browser import Watched, running_browser
from jobs_to_show import Jobs, submit_all
from playwright.sync_api import Browser, expect
from system import Cluster, running_cluster

from millstream.core.services.cluster_secret import cluster_secret
from millstream.dispatcher.dashboard.files import built_files

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not (built_files() / "index.html").is_file():
        pytest.skip("the dashboard was not built: there was no npm when the package was installed")
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def cluster(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("dashboard") / "cluster", 2, 4) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def jobs(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    return submit_all(cluster, tmp_path_factory.mktemp("jobs"))


def token(cluster: Cluster, role: str) -> str:
    secret = cluster_secret(cluster.security)
    assert secret is not None
    return secret.rest_token(role)


def pages(cluster: Cluster, jobs: Jobs) -> dict[str, tuple[str, str, str]]:
    """By the name of its picture: the path, what its heading says, and what else it shows, as a pattern."""
    manager = cluster.get("/taskmanagers")["taskmanagers"][0]["id"]
    vertices = {v["name"]: v["id"] for v in cluster.get(f"/jobs/{jobs.flowing}")["vertices"]}
    keyed = next(i for name, i in vertices.items() if "Latest" in name)
    completed = cluster.get(f"/jobs/{jobs.flowing}/checkpoints")["latest"]["completed"]
    job, vertex = f"#/jobs/{jobs.flowing}", f"#/jobs/{jobs.flowing}/vertices/{keyed}"
    return {
        "checkpoint": (f"{job}/checkpoints/{completed['id']}/{keyed}", "orders to totals", "Subtasks of"),
        "overview": ("#/", "Overview", "orders to totals"),
        "running": ("#/jobs", "Running jobs", "restarting"),
        "ended": ("#/ended", "Ended jobs", "ZeroDivisionError"),
        "graph": (job, "orders to totals", r"busy \d+ %"),
        "graph-backpressured": (f"#/jobs/{jobs.backpressured}", "backpressured", r"backpressured ([5-9]\d|100) %"),
        "stall": (f"#/jobs/{jobs.stalled}/stall", "stalled", "with_idleness"),
        "exceptions": (f"#/jobs/{jobs.restarting}/exceptions", "restarting", "no price in order 40"),
        "exceptions-none": (f"{job}/exceptions", "orders to totals", "Nothing has failed"),
        "failed": (f"#/jobs/{jobs.failed}", "failed", "ZeroDivisionError"),
        "checkpoints": (f"{job}/checkpoints", "orders to totals", "How they are taken"),
        "logs": (f"{job}/logs", "orders to totals", "Logged and printed"),
        "accumulators": (f"{job}/accumulators", "orders to totals", "accumulators"),
        "events": (f"{job}/events", "orders to totals", "running"),
        "configuration": (f"{job}/configuration", "orders to totals", "execution.checkpointing.interval"),
        "vertex": (vertex, "Latest of each key", "Task manager"),
        "vertex-metrics": (f"{vertex}/metrics", "Latest of each key", "0.numRecordsIn"),
        "vertex-watermarks": (f"{vertex}/watermarks", "Latest of each key", "none yet"),
        "vertex-backpressure": (f"{vertex}/backpressure", "Latest of each key", "Level"),
        "vertex-flamegraph": (f"{vertex}/flamegraph", "Latest of each key", "On the processor"),
        "vertex-logs": (f"{vertex}/logs", "Latest of each key", "Logged and printed"),
        "vertex-accumulators": (f"{vertex}/accumulators", "Latest of each key", "have added no"),
        "taskmanagers": ("#/taskmanagers", "Task managers", manager),
        "taskmanager": (f"#/taskmanagers/{manager}", manager, "Slots in use"),
        "jobmanager": ("#/jobmanager", "Job manager", "dispatcher-1.log"),
        "jobmanager-configuration": ("#/jobmanager/configuration", "Job manager", "rest.port"),
        "jobmanager-metrics": ("#/jobmanager/metrics", "Job manager", "numRunningJobs"),
        "jobmanager-threads": ("#/jobmanager/threads", "Job manager", "Dump threads"),
        "wheels": ("#/wheels", "Wheels", "tinyjob"),
        "state": ("#/state", "State", "Latest of running jobs"),
        "nowhere": ("#/nowhere", "Not found", "There is no such page"),
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page(browser: Browser, cluster: Cluster, jobs: Jobs, scheme: str) -> None:
    watched = Watched(browser, f"http://{cluster.rest}", scheme)
    watched.log_in(token(cluster, "submit"))
    faults: list[str] = []
    for name, (path, heading, shown) in pages(cluster, jobs).items():
        watched.visit(path, heading)
        expect(watched.page.locator("main")).to_contain_text(re.compile(shown))
        watched.picture(f"{scheme}-{name}")
        faults += watched.faults()
    watched.close()
    assert faults == []
    assert watched.errors == []


def test_logging_in_and_out(browser: Browser, cluster: Cluster, jobs: Jobs) -> None:
    watched = Watched(browser, f"http://{cluster.rest}")
    page = watched.page
    page.goto(watched.url)
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("none of this cluster's")
    assert watched.faults() == []
    watched.picture("light-login")
    assert [error for error in watched.errors if "401" not in error] == []  # which Chromium itself says
    page.get_by_label("Token").fill(token(cluster, "read"))
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("may look")).to_be_visible()
    page.reload()
    expect(page.get_by_text("may look")).to_be_visible()
    assert "token" not in page.url
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    watched.close()


def test_who_may_only_look_sees_no_buttons(browser: Browser, cluster: Cluster, jobs: Jobs) -> None:
    watched = Watched(browser, f"http://{cluster.rest}")
    shown = cluster.cli("dashboard", "-m", cluster.rest, "--role", "read", "-D", watched_secret(cluster)).stdout.strip()
    assert shown == f"http://{cluster.rest}/#token={token(cluster, 'read')}"
    watched.page.goto(shown)
    watched.page.get_by_role("heading", name="Overview").wait_for()
    watched.visit(f"#/jobs/{jobs.flowing}", "orders to totals")
    for name in ("Cancel", "Stop", "Savepoint", "Rescale"):
        assert watched.page.get_by_role("button", name=name, exact=True).count() == 0
    watched.visit("#/wheels", "Wheels")
    expect(watched.page.get_by_text("tinyjob").first).to_be_visible()
    assert watched.page.get_by_role("button", name=re.compile("^(Upload|Run .*|Delete .*)$")).count() == 0
    assert watched.errors == []
    watched.close()


def watched_secret(cluster: Cluster) -> str:
    return f"security.cluster.secret-file={cluster.directory / 'conf' / 'cluster.secret'}"


def test_figures_change_in_place(browser: Browser, cluster: Cluster, jobs: Jobs) -> None:
    watched = Watched(browser, f"http://{cluster.rest}")
    watched.log_in(token(cluster, "read"))
    watched.visit(f"#/jobs/{jobs.flowing}", "orders to totals")
    page = watched.page
    expect(page.locator(".connection")).to_have_text("Live")
    page.evaluate("() => { for (const node of document.querySelectorAll('.vertex, tbody tr')) node.marked = true }")
    before = page.locator(".stats").inner_text()
    expect(page.locator(".stats")).not_to_have_text(before)
    expect(page.locator(".vertex").first).to_contain_text(re.compile(r"busy\s*\d+ %"))
    assert page.evaluate("() => [...document.querySelectorAll('.vertex, tbody tr')].every(node => node.marked)")
    assert watched.errors == []
    watched.close()


def test_the_keyboard_is_enough(browser: Browser, cluster: Cluster, jobs: Jobs) -> None:
    watched = Watched(browser, f"http://{cluster.rest}")
    watched.log_in(token(cluster, "submit"))
    watched.visit(f"#/jobs/{jobs.finished}", "finished")
    page = watched.page
    page.locator(".graph-frame").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className").startswith("vertex")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Collection Source")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    watched.visit(f"#/jobs/{jobs.stalled}", "stalled")
    page.get_by_role("button", name="Cancel", exact=True).focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("ends at once")
    watched.picture("light-dialog")
    faults = watched.faults()
    for _ in range(5):  # the focus stays inside, or with the browser itself
        page.keyboard.press("Tab")
        assert page.evaluate(
            "() => !!document.activeElement.closest('dialog') || document.activeElement === document.body"
        )
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_focused()
    assert faults == []
    assert watched.errors == []
    watched.close()


def test_looking_into_state_and_processes(browser: Browser, cluster: Cluster, jobs: Jobs) -> None:
    watched = Watched(browser, f"http://{cluster.rest}")
    watched.log_in(token(cluster, "submit"))
    page, faults = watched.page, []
    watched.visit(f"#/state?path={quote(jobs.savepoint, safe='')}", "State")
    page.get_by_role("button", name=re.compile("Rows of .* of Latest of each key")).first.click()
    expect(page.get_by_role("table", name="Rows")).to_be_visible()
    faults += watched.faults()
    watched.picture("light-snapshot")
    page.get_by_label("The later one").fill(jobs.savepoint)
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("Both hold the same")).to_be_visible()
    watched.visit("#/jobmanager/threads", "Job manager")
    page.get_by_role("button", name="Dump threads").click()
    expect(page.locator("main")).to_contain_text("MainThread")
    faults += watched.faults()
    watched.picture("light-threads")
    source = next(v["id"] for v in cluster.get(f"/jobs/{jobs.flowing}")["vertices"] if "Numbers" in v["name"])
    watched.visit(f"#/jobs/{jobs.flowing}/vertices/{source}/flamegraph", "Paced")
    expect(page.locator(".flame-frame")).to_contain_text("paced")
    faults += watched.faults()
    watched.picture("light-flame")
    watched.close()
    assert faults == []
    assert watched.errors == []


def test_what_is_done_from_the_pages(browser: Browser, cluster: Cluster, jobs: Jobs) -> None:
    watched = Watched(browser, f"http://{cluster.rest}")
    watched.log_in(token(cluster, "submit"))
    page = watched.page
    watched.visit(f"#/jobs/{jobs.flowing}", "orders to totals")
    page.get_by_role("button", name="Savepoint", exact=True).click()
    page.get_by_role("button", name="Take a savepoint").click()
    expect(page.get_by_role("dialog")).to_contain_text("savepoint-")
    page.get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert cluster.get(f"/jobs/{jobs.flowing}/checkpoints")["latest"]["savepoint"] is not None
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.locator("h1 .badge")).to_have_text("canceled")
    watched.visit("#/wheels", "Wheels")
    page.get_by_role("button", name="Run tinyjob").click()
    page.get_by_role("dialog").get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("from a wheel")
    assert watched.errors == []
    watched.close()
