"""Pieces of log files."""

from __future__ import annotations

from pathlib import Path

from millstream.core.logs.log_reading import LIMIT, list_logs, read_ends, read_piece
from millstream.core.messages.logs import LogContent


def test_pieces(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"0123456789")
    assert read_piece(path) == LogContent(b"0123456789", 0, 10)
    assert read_piece(path, 4) == LogContent(b"456789", 4, 10)
    assert read_piece(path, 4, 2) == LogContent(b"45", 4, 10)
    assert read_piece(path, -3) == LogContent(b"789", 7, 10)
    assert read_piece(path, -30) == LogContent(b"0123456789", 0, 10)
    assert read_piece(path, 99) == LogContent(b"", 10, 10)
    assert read_piece(path, None, 4) == LogContent(b"6789", 6, 10)
    assert read_piece(tmp_path / "none") == LogContent(b"", 0, 0)
    assert read_piece(Path("/dev/null")) == LogContent(b"", 0, 0)


def test_a_response_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with path.open("wb") as file:
        file.truncate(3 * LIMIT)
    assert len(read_piece(path, 0, 2 * LIMIT).content) == LIMIT
    assert read_piece(path).start == 2 * LIMIT


def test_ends_of_several_files(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path in paths:
        path.write_text(path.name * 4)
    assert read_ends(paths).content == b"aaaabbbbcccc"
    assert read_ends(paths, 6).content == b"bbcccc"


def test_listing(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("abc")
    (tmp_path / "b.log").write_text("")
    (tmp_path / "a.link").symlink_to("/etc/passwd")
    assert [(f.name, f.size) for f in list_logs(tmp_path, lambda name: name.startswith("a."))] == [("a.log", 3)]
    assert list_logs(None, lambda name: True) == []
    assert list_logs(tmp_path / "none", lambda name: True) == []
