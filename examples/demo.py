"""`make demo`: a cluster of separate processes, a wheel submitted over REST, and its result checked to the last record.

Starts a local cluster on free ports, builds the wheel in `examples/wordcount`, uploads and runs it, shows it running,
and compares its output with a straightforward computation. Everything is stopped and removed on every path. The exit
status is 0 only if all steps succeed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).resolve().parent / "wordcount"
MILLSTREAM = [sys.executable, "-m", "millstream.cli.main"]
PORTS = [f"-D{name}.port=0" for name in ("rest", "dispatcher.rpc", "jobmanager.rpc", "resourcemanager.rpc")]
LINES = 120_000
RATE = 15_000
PARALLELISM = 4
DEADLINE = 300.0
NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
CREDENTIALS: dict[str, str] = {}  # of the cluster, once it is running
PLURALS = {"berries": "berry", "cities": "city", "boxes": "box", "wolves": "wolf"}


class DemoFailedError(Exception):
    """A step of the demo failed; the message has the reason."""


def say(text: str) -> None:
    print(text, flush=True)


class Interrupts:
    """Converts the signals that end the demo to one KeyboardInterrupt: never while a process is being started, whose id
    would be lost, and never twice, so that a second Ctrl-C does not interrupt the stopping.
    """

    def __init__(self) -> None:
        self._held = False
        self._pending = False

    def listen(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._handle)

    def ignore(self) -> None:
        self._held = True
        self._pending = False

    def _handle(self, *_: object) -> None:
        self._pending = True
        self._raise_pending()

    def _raise_pending(self) -> None:
        if self._pending and not self._held:
            self.ignore()
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        before, self._held = self._held, True
        yield
        self._held = before
        self._raise_pending()


interrupts = Interrupts()


def command(arguments: list[str], timeout: float = DEADLINE) -> str:
    """Runs a command in a session of its own, so that Ctrl-C reaches only the demo, and ends it when the demo ends."""
    process: subprocess.Popen[str] | None = None
    try:
        with interrupts.held():
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                start_new_session=True,
            )  # fmt: skip
        output, _ = process.communicate(timeout=timeout)
    except BaseException:
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=20)
            process.kill()
        raise
    if process.returncode != 0:
        raise DemoFailedError(f"`{' '.join(arguments[1:5])} ...` failed: {output.strip()}")
    return output


@contextlib.contextmanager
def cluster(directory: Path) -> Iterator[str]:
    """A cluster of two task managers with two slots each; yields the address of its REST API."""
    shape = ["--taskmanagers", "2", "--slots", "2", "--dir", str(directory)]
    say("$ millstream cluster start --taskmanagers 2 --slots 2")
    try:
        output = command([*MILLSTREAM, "cluster", "start", *shape, "--timeout", str(DEADLINE / 2), *PORTS])
        address = re.search(r"is up at (\S+):", output)
        if address is None:
            raise DemoFailedError(f"cluster start has not printed the address of the cluster: {output.strip()}")
        say(f"  five processes, REST API at http://{address.group(1)}")
        token = command([*MILLSTREAM, "cluster", "token", "--dir", str(directory)]).strip()
        CREDENTIALS["Authorization"] = f"Bearer {token}"
        yield f"http://{address.group(1)}"
    finally:
        interrupts.ignore()
        say("$ millstream cluster stop")
        command([*MILLSTREAM, "cluster", "stop", "--dir", str(directory)])


def request(method: str, url: str, body: bytes | None = None, content_type: str = "application/json") -> Any:
    """Sends a request to the REST API; returns the response."""
    headers = {"Content-Type": content_type, **CREDENTIALS}
    call = urllib.request.Request(url, body, headers, method=method)
    try:
        with NO_PROXY.open(call, timeout=DEADLINE) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise DemoFailedError(f"{method} {url}: {error.code} {error.read().decode(errors='replace')}") from error
    except OSError as error:
        raise DemoFailedError(f"{method} {url}: {error}") from error


def build_wheel(directory: Path) -> Path:
    say("$ pip wheel examples/wordcount")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command([*pip, "--wheel-dir", str(directory), str(EXAMPLE)])
    (wheel,) = directory.glob("*.whl")
    return wheel


def submit(rest: str, wheel: Path, output: Path, lines: int) -> str:
    """Uploads the wheel and runs it; returns the job's id."""
    say(f"$ curl -K cluster/conf/curl -F jarfile=@{wheel.name} {rest}/jars/upload")
    boundary = uuid.uuid4().hex
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="jarfile"; filename="{wheel.name}"\r\n\r\n'
    form = head.encode() + wheel.read_bytes() + f"\r\n--{boundary}--\r\n".encode()
    uploaded = request("POST", f"{rest}/jars/upload", form, f"multipart/form-data; boundary={boundary}")
    wheel_id = Path(uploaded["filename"]).name
    say(f"$ curl -K cluster/conf/curl -X POST {rest}/jars/{wheel_id}/run   (installs the job's dependencies first)")
    arguments = ["--output", str(output), "--lines", str(lines), "--rate", str(RATE)]
    run = {"programArgsList": arguments, "parallelism": PARALLELISM}
    response = request("POST", f"{rest}/jars/{wheel_id}/run", json.dumps(run).encode())
    return str(response["jobid"])


def watch(rest: str, job_id: str, output: Path) -> None:
    """Shows the job every second until it has finished. Raises if it ends in any other state."""
    say(f"$ curl -K cluster/conf/curl {rest}/jobs/{job_id}   (every second)")
    started = time.monotonic()
    while time.monotonic() - started < DEADLINE:
        job = request("GET", f"{rest}/jobs/{job_id}")
        say(f"  {time.monotonic() - started:4.1f} s  {describe(job, output)}")
        if job["state"] == "FINISHED":
            return
        if job["state"] in ("FAILED", "CANCELED"):
            failures = request("GET", f"{rest}/jobs/{job_id}/exceptions")["exceptionHistory"]["entries"]
            reason = failures[0]["stacktrace"] if failures else "no reason is known"
            raise DemoFailedError(f"the job is {job['state']}: {reason}")
        time.sleep(1.0)
    raise DemoFailedError(f"the job has not finished after {DEADLINE:g} s")


def describe(job: dict[str, Any], output: Path) -> str:
    """The job's state, the records of each vertex, and some of the results so far."""
    parts = [f"{job['state']:8}"]
    for vertex in job["vertices"]:
        records = max(vertex["metrics"]["read-records"], vertex["metrics"]["write-records"])
        parts.append(f"{vertex['name']} (x{vertex['parallelism']}): {records:,}")
    highest = sorted(((numbers[-1], word) for word, numbers in read_counts(output).items()), reverse=True)
    if highest:
        parts.append("written: " + ", ".join(f"{word} {count:,}" for count, word in highest[:3]) + ", ...")
    return " | ".join(parts)


def read_counts(output: Path) -> dict[str, list[int]]:
    """Every count that was written, by word and in order.

    A part file gets its visible name only when it is complete.
    """
    counts: dict[str, list[int]] = defaultdict(list)
    for part in output.glob("part-*.jsonl"):
        for text in part.read_text().splitlines():
            word, count = json.loads(text)
            counts[word].append(count)
    return {word: sorted(numbers) for word, numbers in counts.items()}


def check(output: Path, lines: int) -> None:
    """Compares with a straightforward computation: each word must have been counted 1, 2, 3, ...

    to its exact number.
    """
    sys.path.insert(0, str(EXAMPLE))
    from wordcount_job.words import line

    words = (word for index in range(lines) for word in line(index).split())
    expected = Counter(PLURALS.get(word, word.removesuffix("s")) for word in words)
    counts = read_counts(output)
    if counts.keys() != expected.keys():
        raise DemoFailedError(f"the job counted {sorted(counts)}, the words are {sorted(expected)}")
    for word, number in expected.items():
        if counts[word] != list(range(1, number + 1)):
            found = counts[word]
            raise DemoFailedError(f"'{word}' occurs {number} times; written: {len(found)} counts up to {found[-1]}")
    say(f"Correct: {expected.total():,} words, {len(expected)} different ones, every single count as it should be.")


def left_running(directory: Path) -> list[int]:
    """The processes that carry the cluster's directory in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(directory).encode() in (process / "environ").read_bytes() and int(process.name) != os.getpid():
                found.append(int(process.name))
    return found


def run(lines: int) -> None:
    with tempfile.TemporaryDirectory(prefix="millstream-demo-") as folder:
        directory, output = Path(folder) / "cluster", Path(folder) / "counts"
        wheel = build_wheel(Path(folder) / "dist")
        with cluster(directory) as rest:
            watch(rest, submit(rest, wheel, output, lines), output)
            check(output, lines)
        if left := left_running(directory):
            raise DemoFailedError(f"these processes are still running: {left}")


def main() -> int:
    parser = argparse.ArgumentParser(description="A cluster, a wheel, and its result checked to the last record.")
    parser.add_argument("--lines", type=int, default=LINES, help=f"how many to count, {RATE:,} a second (%(default)s)")
    lines = parser.parse_args().lines
    interrupts.listen()
    started = time.monotonic()
    try:
        run(lines)
    except DemoFailedError as error:
        print(f"The demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted; everything was stopped.", file=sys.stderr)
        return 130
    say(f"Done in {time.monotonic() - started:.0f} s; nothing is left running.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
