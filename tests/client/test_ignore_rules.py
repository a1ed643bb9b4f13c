"""Rules of `.millstreamignore` mean what they mean in a `.gitignore`."""

from __future__ import annotations

import pytest

from millstream.client.ignore_rules import IgnoreRules


@pytest.mark.parametrize(
    ("lines", "path", "is_folder", "out"),
    [
        ([], "job.py", False, False),
        ([], ".env", False, True),
        ([], "config/.secrets", False, True),
        ([], ".git", True, True),
        ([], "a/__pycache__", True, True),
        ([], "node_modules", True, True),
        ([], "server.key", False, True),
        (["!.env"], ".env", False, False),
        (["*.csv"], "deep/down/data.csv", False, True),
        (["/*.csv"], "deep/data.csv", False, False),
        (["/*.csv"], "data.csv", False, True),
        (["data/"], "data", False, False),
        (["data/"], "x/data", True, True),
        (["data/raw"], "data/raw", True, True),
        (["data/raw"], "x/data/raw", True, False),
        (["**/raw"], "x/y/raw", True, True),
        (["a/**/b"], "a/b", False, True),
        (["a/**/b"], "a/x/y/b", False, True),
        (["a/**"], "a/x/y", False, True),
        (["*.txt", "!keep.txt"], "keep.txt", False, False),
        (["*.txt", "!keep.txt", "keep.txt"], "keep.txt", False, True),
        (["file?.py"], "file1.py", False, True),
        (["file?.py"], "file12.py", False, False),
        (["[ab].py"], "a.py", False, True),
        (["[!ab].py"], "a.py", False, False),
        (["[!ab].py"], "c.py", False, True),
        (["# comment", "", "  ", "/"], "# comment", False, False),
        (["\\#file"], "#file", False, True),
        (["\\!file"], "!file", False, True),
        (["x.py   "], "x.py", False, True),
        (["a.b"], "axb", False, False),
        (["[unclosed"], "[unclosed", False, True),
    ],
)
def test_rules(lines: list[str], path: str, is_folder: bool, out: bool) -> None:
    assert IgnoreRules(lines).leaves_out(path, is_folder) is out
