"""`millstream dashboard`: the address, and who is let in with it."""

from __future__ import annotations

import socket
import threading
import webbrowser
from pathlib import Path

import pytest
from ports import free_port

from millstream.cli.main import main
from millstream.core.services.cluster_secret import cluster_secret, make_secret_file
from millstream.core.settings.configuration import Configuration

ADDRESS = ["-m", "127.0.0.1:1234"]


def test_without_a_secret_the_address_alone_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dashboard", *ADDRESS]) == 0
    assert capsys.readouterr().out == "http://127.0.0.1:1234/\n"


def test_the_token_of_the_role_is_behind_the_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_secret_file(tmp_path / "secret")
    options = {"security.cluster.secret-file": str(tmp_path / "secret")}
    secret = cluster_secret(Configuration(options))
    assert secret is not None
    given = [f"-Dsecurity.cluster.secret-file={tmp_path / 'secret'}", "-Dsecurity.ssl.rest.enabled=true"]
    for role in ("read", "submit"):
        assert main(["dashboard", *ADDRESS, *given, "--role", role]) == 0
        assert capsys.readouterr().out == f"https://127.0.0.1:1234/#token={secret.rest_token(role)}\n"


@pytest.mark.parametrize("opens", [(), ("--open",)])
def test_no_token_is_given_to_a_program_that_has_the_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], opens: tuple[str, ...]
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: pytest.fail(f"{url} is opened"))
    make_secret_file(tmp_path / "secret")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        other = threading.Thread(target=serve)
        other.start()
        port, secret = listener.getsockname()[1], tmp_path / "secret"
        given = ["-m", f"127.0.0.1:{port}", f"-Dsecurity.cluster.secret-file={secret}"]
        assert main(["dashboard", *given, *opens]) == 1
        other.join()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "does not know the cluster's secret" in printed.err


def test_no_browser_is_opened_while_no_process_has_the_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program that takes it meanwhile would get the token."""
    monkeypatch.setattr(webbrowser, "open", lambda url: pytest.fail(f"{url} is opened"))
    make_secret_file(tmp_path / "secret")
    given = ["-m", f"127.0.0.1:{free_port()}", f"-Dsecurity.cluster.secret-file={tmp_path / 'secret'}"]
    assert main(["dashboard", *given]) == 0
    assert "#token=submit." in capsys.readouterr().out
    assert main(["dashboard", *given, "--open"]) == 1
    assert "cannot reach the cluster" in capsys.readouterr().err


def test_a_browser_is_opened_or_that_there_is_none_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: not opened.append(url))
    assert main(["dashboard", *ADDRESS, "--open"]) == 0
    assert opened == ["http://127.0.0.1:1234/"]
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    assert main(["dashboard", *ADDRESS, "--open"]) == 1
    assert "no browser" in capsys.readouterr().err
