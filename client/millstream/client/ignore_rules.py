"""Which files of a folder are left out: rules as in a `.gitignore`, where the last one that matches decides. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

DEFAULTS = (
    ".*",  # hidden files hold settings, caches and secrets
    "__pycache__/",
    "*.pyc",
    "node_modules/",
    "*.egg-info/",
    "*.pem",
    "*.key",
    "*.secret",
    "*.p12",
    "id_rsa*",
)


class _Rule(Struct, frozen=True):
    pattern: re.Pattern[str]
    folders_only: bool
    leaves_out: bool


class IgnoreRules:
    """The defaults, and then the lines of an ignore file. `!` before a rule takes back what is there again."""

    def __init__(self, lines: Iterable[str] = (), defaults: Iterable[str] = DEFAULTS) -> None:
        self._rules = [rule for line in (*defaults, *lines) if (rule := _parsed(line)) is not None]

    def leaves_out(self, path: str, is_folder: bool) -> bool:
        """Whether the file or folder with this path, relative and with `/`, stays behind, and all that is in it."""
        result = False
        for rule in self._rules:
            if (is_folder or not rule.folders_only) and rule.pattern.fullmatch(path):
                result = rule.leaves_out
        return result


def _parsed(line: str) -> _Rule | None:
    text = line.rstrip("\r\n")
    text = text if text.endswith("\\ ") else text.rstrip()
    if not text or text.startswith("#"):
        return None
    leaves_out = not text.startswith("!")
    text = text[1:] if not leaves_out else text.removeprefix("\\")
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    anchored = "/" in text
    text = text.removeprefix("/")
    if not text:
        return None
    return _Rule(re.compile(("" if anchored else "(?:.*/)?") + _regex(text)), folders_only, leaves_out)


def _regex(text: str) -> str:
    parts: list[str] = []
    at = 0
    while at < len(text):
        if text.startswith("**/", at):
            parts.append("(?:.*/)?")
            at += 3
        elif text.startswith("**", at):
            parts.append(".*")
            at += 2
        elif text[at] == "*":
            parts.append("[^/]*")
            at += 1
        elif text[at] == "?":
            parts.append("[^/]")
            at += 1
        elif text[at] == "[" and (end := text.find("]", at + 2)) > 0:
            content = text[at + 1 : end].replace("\\", "\\\\")
            parts.append(f"[{'^' + content[1:] if content[0] in '!^' else content}]")
            at = end + 1
        else:
            at += text[at] == "\\" and at + 1 < len(text)
            parts.append(re.escape(text[at]))
            at += 1
    return "".join(parts)
