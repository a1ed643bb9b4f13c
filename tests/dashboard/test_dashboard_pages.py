"""Every page of the dashboard in a real Chromium, against a real cluster whose jobs flow, are backpressured, restart,
stall, fail and finish: pages are complete, the console has no messages, nothing is requested from other sites, and
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
from system import Cluster, running_cluster, wait_until

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
    """By the name of its picture: the path, the heading, and a pattern of the other content."""
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
        "exceptions": (
            f"#/jobs/{jobs.restarting}/exceptions",
            "restarting",
            r"no price in order 40.*Record\s*40.*in parsed",
        ),
        "exceptions-none": (f"{job}/exceptions", "orders to totals", "No failures in this job"),
        "failed": (f"#/jobs/{jobs.failed}", "failed", "ZeroDivisionError"),
        "checkpoints": (f"{job}/checkpoints", "orders to totals", "Savepoints.*savepoint-.*Copy path.*Settings"),
        "logs": (f"{job}/logs", "orders to totals", "Logs and output"),
        "accumulators": (f"{job}/accumulators", "orders to totals", "accumulators"),
        "events": (f"{job}/events", "orders to totals", "Running"),
        "configuration": (f"{job}/configuration", "orders to totals", "execution.checkpointing.interval"),
        "vertex": (vertex, "Latest of each key", r"Hot keys.*0(Share of all records)?\s*\d\d %"),
        "vertex-metrics": (f"{vertex}/metrics", "Latest of each key", "Whole vertex.*Records in per second.*Subtask 0"),
        "vertex-watermarks": (f"{vertex}/watermarks", "Latest of each key", "none yet"),
        "vertex-backpressure": (f"{vertex}/backpressure", "Latest of each key", "Level"),
        "vertex-flamegraph": (f"{vertex}/flamegraph", "Latest of each key", "On-CPU"),
        "vertex-logs": (f"{vertex}/logs", "Latest of each key", "Logs and output"),
        "vertex-accumulators": (f"{vertex}/accumulators", "Latest of each key", "No accumulators have been registered"),
        "taskmanagers": ("#/taskmanagers", "Task managers", manager),
        "taskmanager": (f"#/taskmanagers/{manager}", manager, "Slots in use.*orders to totals"),
        "taskmanager-metrics": (f"#/taskmanagers/{manager}/metrics", manager, r"Memory in use(Value)?\s*[\d.]+ MB"),
        "taskmanager-logs": (f"#/taskmanagers/{manager}/logs", manager, "Follow"),
        "taskmanager-threads": (f"#/taskmanagers/{manager}/threads", manager, "Dump threads"),
        "taskmanager-flamegraph": (f"#/taskmanagers/{manager}/flamegraph", manager, "Runtime frames"),
        "jobmanager": ("#/jobmanager", "Job manager", "jobmanager-1.log"),
        "jobmanager-configuration": ("#/jobmanager/configuration", "Job manager", "rest.port"),
        "jobmanager-metrics": ("#/jobmanager/metrics", "Job manager", r"Running jobs(Value)?\s*\d"),
        "jobmanager-threads": ("#/jobmanager/threads", "Job manager", "Dump threads"),
        "wheels": ("#/wheels", "Wheels", "tinyjob"),
        "state": ("#/state", "State", "Latest snapshots of running jobs"),
        "nowhere": ("#/nowhere", "Not found", "This page does not exist"),
    }


@pytest.mark.parametrize("width", [1440, pytest.param(390, marks=pytest.mark.slow)])
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_every_page(browser: Browser, cluster: Cluster, jobs: Jobs, scheme: str, width: int) -> None:
    """Its content is complete, fits the width, and is accessible."""
    watched = Watched(browser, f"http://{cluster.rest}", scheme, width)
    watched.log_in(token(cluster, "submit"))
    faults: list[str] = []
    for name, (path, heading, shown) in pages(cluster, jobs).items():
        watched.visit(path, heading)
        expect(watched.page.locator("main")).to_contain_text(re.compile(shown, re.DOTALL))
        watched.picture(f"{scheme}-{name}" if width == 1440 else f"{scheme}-{width}-{name}")
        faults += watched.cut_off() + watched.faults()
    watched.close()
    assert faults == []
    assert watched.errors == []


def test_logging_in_and_out(browser: Browser, cluster: Cluster, jobs: Jobs) -> None:
    watched = Watched(browser, f"http://{cluster.rest}")
    page = watched.page
    page.goto(watched.url)
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("not valid for this cluster")
    assert watched.faults() == []
    watched.picture("light-login")
    assert [error for error in watched.errors if "/challenge?" not in error] == []  # Chromium itself logs its 404
    page.get_by_label("Token").fill(token(cluster, "read"))
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("Viewer")).to_be_visible()
    page.reload()
    expect(page.get_by_text("Viewer")).to_be_visible()
    assert "token" not in page.url
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    watched.close()


def test_readers_see_no_buttons(browser: Browser, cluster: Cluster, jobs: Jobs) -> None:
    watched = Watched(browser, f"http://{cluster.rest}")
    shown = cluster.cli("dashboard", "-m", cluster.rest, "--role", "read", "-D", watched_secret(cluster)).stdout.strip()
    assert shown.startswith(f"http://{cluster.rest}/#token=read."), "it has the time at which it expires, and the proof"
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
    nodes = "document.querySelectorAll('.vertex, tbody tr:not(.u-series)')"  # a plot is drawn once it has points
    page.evaluate(f"() => {{ for (const node of {nodes}) node.marked = true }}")
    before = page.locator(".stats").inner_text()
    expect(page.locator(".stats")).not_to_have_text(before)
    expect(page.locator(".vertex").first).to_contain_text(re.compile(r"busy\s*\d+ %"))
    assert page.evaluate(f"() => [...{nodes}].every(node => node.marked)")
    assert watched.errors == []
    watched.close()


def test_a_backpressured_job(browser: Browser, cluster: Cluster, jobs: Jobs) -> None:
    """What the graph shows of edges and times is what the cluster measures."""
    watched = Watched(browser, f"http://{cluster.rest}")
    watched.log_in(token(cluster, "read"))
    watched.visit(f"#/jobs/{jobs.backpressured}", "backpressured")
    page = watched.page
    expect(page.locator(".vertex.is-backpressured")).to_contain_text("Sequence Source")
    expect(page.locator(".vertex.is-hot")).to_contain_text("Slow lookup")
    expect(page.locator("path.edge.backpressured")).to_have_count(1)
    label = page.locator(".edge-label")
    expect(label).to_contain_text(re.compile(r"hash\s*\d+(\.\d)?/s\s*\d+ waiting\s*(no credit|credit \d+)"))
    (edge,) = cluster.get(f"/jobs/{jobs.backpressured}/flow")["edges"]
    assert edge["queued-out"] + edge["queued-in"] > 0
    assert edge["rate"] == pytest.approx(20, rel=0.5), "one in 50 ms"
    assert watched.errors == []
    watched.close()


def test_without_a_stream_the_page_polls(browser: Browser, cluster: Cluster, jobs: Jobs) -> None:
    watched = Watched(browser, f"http://{cluster.rest}")
    watched.log_in(token(cluster, "read"))
    page = watched.page
    connection = page.locator(".connection")
    expect(connection).to_have_text("Live")
    page.route("**/updates?*", lambda route: route.abort())
    watched.visit(f"#/jobs/{jobs.flowing}", "orders to totals")
    expect(connection).to_have_text("Polling")
    before = page.locator(".stats").inner_text()
    expect(page.locator(".stats")).not_to_have_text(before)
    page.route("**/*", lambda route: route.abort())
    expect(connection).to_have_text("Not connected")
    expect(page.get_by_role("alert")).to_contain_text(
        re.compile(r"does not respond. Showing data as of \d\d:\d\d:\d\d")
    )
    expect(page.locator(".vertex").first).to_be_visible()
    watched.picture("light-offline")
    page.unroute_all()
    expect(connection).to_have_text("Live")
    expect(page.get_by_role("alert")).to_have_count(0)
    assert [error for error in watched.errors if "ERR_FAILED" not in error] == []  # logged by Chromium itself
    watched.close()


def test_the_keyboard_is_enough(browser: Browser, cluster: Cluster, jobs: Jobs) -> None:
    """A savepoint is taken, and a vertex opened, with Tab, Enter, typing and Escape."""
    watched = Watched(browser, f"http://{cluster.rest}")
    watched.log_in(token(cluster, "submit"))
    watched.visit(f"#/jobs/{jobs.flowing}", "orders to totals")
    page, dialog = watched.page, watched.page.get_by_role("dialog")

    focused = (
        "words => document.activeElement.matches('a, button') && document.activeElement.textContent.includes(words)"
    )

    def tab_to(words: str) -> None:
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate(focused, words):
                return
        raise AssertionError(f"Tab does not lead to '{words}'")

    tab_to("Savepoint")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("The job keeps running")
    watched.picture("light-dialog")
    faults = watched.faults()
    for _ in range(5):  # the focus stays inside, or with the browser itself
        page.keyboard.press("Tab")
        assert page.evaluate(
            "() => !!document.activeElement.closest('dialog') || document.activeElement === document.body"
        )
    tab_to("Take a savepoint")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("savepoint-")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Savepoint", exact=True)).to_be_focused()
    tab_to("Latest of each key")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Latest of each key")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    assert faults == []
    assert watched.errors == []
    watched.close()


def test_browsing_state_and_processes(browser: Browser, cluster: Cluster, jobs: Jobs) -> None:
    watched = Watched(browser, f"http://{cluster.rest}")
    watched.log_in(token(cluster, "submit"))
    page, faults = watched.page, []
    cluster.cli("savepoint", "-m", cluster.rest, jobs.flowing)
    later = cluster.get(f"/jobs/{jobs.flowing}/checkpoints")["latest"]["savepoint"]["external_path"]
    watched.visit(f"#/state?path={quote(later, safe='')}", "State")
    page.get_by_role("button", name=re.compile("Rows of .* of Latest of each key")).first.click()
    rows = page.get_by_role("table", name="Rows")
    expect(rows.locator("tbody tr")).to_have_count(7)
    page.get_by_role("searchbox", name=re.compile("^Key")).fill("3")
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_text(re.compile(r"^1 of \d rows have this key"))).to_be_visible()
    expect(rows.locator("tbody tr")).to_have_count(1)
    faults += watched.faults()
    watched.picture("light-snapshot")
    page.get_by_label("Later snapshot").fill(later)
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("The snapshots are equal")).to_be_visible()
    page.get_by_label("Later snapshot").fill(jobs.savepoint)
    page.get_by_role("button", name="Compare").click()
    changed = page.locator("details", has_text=re.compile("[1-7] changed")).first
    changed.locator("summary").click()
    expect(changed.get_by_role("region")).to_be_visible()
    faults += watched.faults()
    watched.picture("light-difference")
    watched.visit("#/jobmanager/metrics", "Job manager")
    page.get_by_label("Find a metric").fill("numrunning")
    expect(page.get_by_role("table", name="Metrics")).to_contain_text(re.compile(r"^MetricValueRunning jobs\d+$"))
    manager, slot = next(
        (one["id"], held["index"])
        for one in cluster.get("/taskmanagers")["taskmanagers"]
        for held in cluster.get(f"/taskmanagers/{one['id']}")["allocatedSlots"]
        if held["jobId"] == jobs.flowing
    )
    watched.visit(f"#/taskmanagers/{manager}", manager)
    page.get_by_role("link", name=f"Flame graph of slot {slot}").click()
    page.get_by_label("Mixed").check()
    for frame in ("Numbers -> Paced", "paced ("):  # the operator's task, and in it the user's function
        expect(page.locator(".flame-frame")).to_contain_text(frame)
    faults += watched.faults()
    watched.picture("light-slot-flame")
    page.get_by_role("link", name="Threads").click()
    page.get_by_role("button", name="Dump threads").click()
    expect(page.locator("main")).to_contain_text(f"slot {slot}, job {jobs.flowing}")
    faults += watched.faults()
    watched.picture("light-threads")
    source = next(v["id"] for v in cluster.get(f"/jobs/{jobs.flowing}")["vertices"] if "Numbers" in v["name"])
    watched.visit(f"#/jobs/{jobs.flowing}/vertices/{source}/flamegraph", "Paced")
    page.get_by_label("Off-CPU").check()
    expect(page.locator(".flame-frame")).to_contain_text("paced")
    watched.picture("light-flame")
    watched.visit(f"#/jobs/{jobs.flowing}", "orders to totals")
    page.locator(".vertex", has_text="Paced").click()
    page.get_by_role("navigation", name="Parts of the vertex").get_by_role("link", name="Logs").click()
    expect(page.locator("pre.log")).to_contain_text(re.compile(r"Paced.* paced \d+00"))  # in two clicks
    page.get_by_label("Subtask").select_option("1")
    expect(page.locator("pre.log")).to_contain_text("(1)")
    expect(page.locator("pre.log")).not_to_contain_text("(0)")
    watched.close()
    assert faults == []
    assert watched.errors == []


def test_lists_show_the_health_of_jobs(browser: Browser, cluster: Cluster, jobs: Jobs) -> None:
    """Runs before the tests that change jobs: a job whose state is RUNNING may be unhealthy."""
    watched = Watched(browser, f"http://{cluster.rest}")
    watched.log_in(token(cluster, "read"))
    for path, heading in (("#/", "Overview"), ("#/jobs", "Running jobs")):
        watched.visit(path, heading)
        table = watched.page.get_by_role("table", name="Running jobs")
        for job, health, text in (
            ("orders to totals", "running", r"\d+/s"),
            ("backpressured", "backpressured", "Backpressure begins at 'Slow lookup"),
            ("stalled", "stalled", "It is held back by split 'silent'"),
        ):
            row = table.get_by_role("row", name=re.compile(f"^{job} "))
            expect(row.locator(".badge")).to_have_text(health)
            expect(row).to_contain_text(re.compile(text))
        line = table.get_by_role("row", name=re.compile("^orders to totals ")).locator(".spark-line")
        expect(line.first).to_have_attribute("d", re.compile("L"))
    colours = "all => Object.fromEntries(all.map(badge => [badge.textContent, getComputedStyle(badge).color]))"
    tones = watched.page.locator("tbody .badge").evaluate_all(colours)
    assert len({tones["running"], tones["backpressured"], tones["stalled"]}) == 3
    assert watched.errors == []
    watched.close()


def test_the_last_hour_is_shown_at_once_and_after_a_reload(browser: Browser, cluster: Cluster, jobs: Jobs) -> None:
    """A plot takes its place before it has values; it includes what was recorded before the page was opened."""
    eventually_recorded(cluster, jobs.backpressured)
    watched = Watched(browser, f"http://{cluster.rest}")
    watched.log_in(token(cluster, "read"))
    page = watched.page
    held = []
    page.route("**/updates?*", lambda route: route.abort())  # one by one, so that the history can be held back
    page.route("**/history?*", lambda route: held.append(route))
    watched.visit(f"#/jobs/{jobs.backpressured}", "backpressured")
    heading = page.get_by_role("heading", name="Vertices")
    expect(page.locator(".plot-empty")).to_have_text("Loading the history …")
    expect(page.locator(".vertex").first).to_be_visible()
    before = heading.bounding_box()
    page.unroute("**/history?*")
    for route in held:
        route.continue_()
    plot = page.get_by_role("img", name=re.compile(r"^Source rate.*Now: Source: Sequence Source [\d.]+$"))
    expect(plot).to_be_visible()
    expect(page.locator(".plot-empty")).to_have_count(0)
    assert heading.bounding_box() == before
    page.unroute("**/updates?*")
    page.reload()
    expect(plot).to_be_visible()
    assert [error for error in watched.errors if "ERR_FAILED" not in error] == []  # logged by Chromium itself
    watched.close()


def eventually_recorded(cluster: Cluster, job: str) -> None:
    def values() -> int:
        return sum(v is not None for s in cluster.get(f"/jobs/{job}/history")["series"] for v in s["values"])

    wait_until(lambda: values() >= 3, "a history of the job")


def test_the_navigation_and_what_is_opened_first(browser: Browser, cluster: Cluster, jobs: Jobs) -> None:
    watched = Watched(browser, f"http://{cluster.rest}")
    watched.log_in(token(cluster, "submit"))
    page = watched.page
    here = page.get_by_role("navigation", name="Pages").locator("[aria-current=page]")
    watched.visit(f"#/jobs/{jobs.finished}", "finished")
    expect(here).to_have_text("Ended jobs")
    watched.visit(f"#/jobs/{jobs.flowing}", "orders to totals")
    expect(here).to_have_text("Running jobs")
    (vertex, *_) = cluster.get(f"/jobs/{jobs.failed}")["vertices"]
    watched.visit(f"#/jobs/{jobs.failed}/vertices/{vertex['id']}", "Divided")
    expect(here).to_have_text("Ended jobs")
    watched.visit("#/jobmanager", "Job manager")
    expect(page.get_by_label("Service").locator("option:checked")).to_contain_text("Job manager ·")
    expect(page.locator("pre.log")).to_contain_text("INFO")
    for manager in cluster.get("/taskmanagers")["taskmanagers"]:
        watched.visit(f"#/taskmanagers/{manager['id']}/logs", manager["id"])
        opened = page.get_by_label("File").locator("option:checked")
        expect(opened).to_contain_text(re.compile(r"^taskmanager-\d\.log · [1-9]"))
        expect(page.locator("pre.log")).to_contain_text("INFO")
    watched.visit(f"#/jobs/{jobs.restarting}/events", "restarting")
    strip = page.get_by_role("img", name=re.compile(r"^From \d.* restarts?$"))
    expect(strip.locator(".strip-mark.bad").first).to_have_attribute("title", re.compile(r"Restart \d+: ValueError"))
    assert strip.locator(".strip-mark.bad").count() >= 1
    assert watched.errors == []
    watched.close()


def test_a_table_is_a_list_while_the_window_is_narrow(browser: Browser, cluster: Cluster, jobs: Jobs) -> None:
    watched = Watched(browser, f"http://{cluster.rest}")
    watched.log_in(token(cluster, "read"))
    watched.visit(f"#/jobs/{jobs.flowing}", "orders to totals")
    page = watched.page
    table, rows = page.get_by_role("table", name="Vertices"), page.get_by_role("list", name="Vertices")
    expect(table).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 900})
    expect(rows.get_by_role("listitem")).to_have_count(2)
    expect(table).to_have_count(0)
    page.get_by_label("Sort by").select_option("Bytes in")
    expect(rows.get_by_role("listitem").first).to_contain_text("Paced")
    expect(rows.get_by_role("listitem").last).to_contain_text("Latest of each key")
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(table).to_be_visible()
    expect(rows).to_have_count(0)
    assert watched.errors == []
    watched.close()


def test_a_wheel_is_dropped(browser: Browser, cluster: Cluster, jobs: Jobs) -> None:
    watched = Watched(browser, f"http://{cluster.rest}")
    watched.log_in(token(cluster, "submit"))
    watched.visit("#/wheels", "Wheels")
    page = watched.page

    def drop(name: str, content: list[int]) -> None:
        page.locator(".drop").evaluate(
            """(zone, {name, content}) => {
              const carried = new DataTransfer();
              carried.items.add(new File([new Uint8Array(content)], name));
              for (const type of ['dragover', 'drop']) {
                zone.dispatchEvent(new DragEvent(type, {dataTransfer: carried, bubbles: true, cancelable: true}));
              }
            }""",
            {"name": name, "content": content},
        )

    drop("notes.txt", [1])
    expect(page.get_by_role("alert")).to_contain_text("notes.txt is not a wheel")
    drop("dropped-1.0-py3-none-any.whl", list(jobs.wheel.read_bytes()))
    expect(page.get_by_role("table", name="Wheels")).to_contain_text("otherjob")
    page.get_by_role("button", name=re.compile("^Delete dropped")).click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("table", name="Wheels")).not_to_contain_text("otherjob")
    assert watched.errors == []
    watched.close()


def test_actions(browser: Browser, cluster: Cluster, jobs: Jobs) -> None:
    watched = Watched(browser, f"http://{cluster.rest}")
    watched.log_in(token(cluster, "submit"))
    page, dialog, badge = watched.page, watched.page.get_by_role("dialog"), watched.page.locator("h1 .badge")
    watched.visit(f"#/jobs/{jobs.flowing}", "orders to totals")
    page.get_by_role("button", name="Rescale").click()
    dialog.get_by_label("Parallelism").fill("3")
    dialog.get_by_role("button", name="Rescale").click()
    expect(dialog).to_have_count(0)
    expect(page.locator(".vertex", has_text="Latest of each key")).to_contain_text(re.compile("running · .3"))
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog.get_by_role("button", name="Stop the job").click()
    expect(dialog).to_contain_text("The job stops. Savepoint: ")
    expect(dialog.locator("code")).to_contain_text("savepoint-")
    expect(badge).to_have_text("finished")
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_role("heading", level=1)).to_be_focused()  # the button that opened it is gone
    watched.visit(f"#/jobs/{jobs.stalled}", "stalled")
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(dialog).to_contain_text("ends immediately")
    dialog.get_by_role("button", name="Close").click()
    expect(badge).to_have_text("stalled")
    page.get_by_role("button", name="Cancel", exact=True).click()
    dialog.get_by_role("button", name="Cancel the job").click()
    expect(badge).to_have_text("cancelled")
    watched.visit("#/wheels", "Wheels")
    page.get_by_label("Wheel", exact=True).set_input_files(jobs.wheel)
    expect(page.get_by_role("row", name=re.compile("otherjob"))).to_contain_text("otherjob:main")
    page.get_by_role("button", name="Show the plan of otherjob").click()
    dialog.get_by_label("Arguments").fill("planned")
    dialog.get_by_label("Parallelism").fill("2")
    dialog.get_by_role("button", name="Show the plan").click()
    expect(dialog.locator(".vertex", has_text="Of a key")).to_contain_text("\N{MULTIPLICATION SIGN}2")
    watched.picture("light-plan")
    assert watched.faults() == []
    dialog.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Run otherjob").click()
    dialog.get_by_label("Arguments").fill("from 'a wheel'")
    dialog.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("from a wheel")
    assert watched.errors == []
    watched.close()
