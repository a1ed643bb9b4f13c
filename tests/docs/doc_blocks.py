"""The fenced blocks of a page, and the comment before each one.

<!-- file: NAME -->     the block is a file that later commands use
<!-- untested: WHY -->  the block is not run here
<!-- ANYTHING -->       a mark that the page's test knows
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_BLOCK = re.compile(r"(?:<!-- (?P<mark>[^>]*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    text: str
    mark: str

    @property
    def file(self) -> str | None:
        return self.mark.removeprefix("file: ") if self.mark.startswith("file: ") else None

    @property
    def tested(self) -> bool:
        return not self.mark.startswith("untested: ")


def blocks_of(page: Path) -> list[Block]:
    return [Block(match["language"], match["text"], match["mark"] or "") for match in _BLOCK.finditer(page.read_text())]


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
