"""Hooks of MkDocs: generated pages, and links from docs/ to other files of the repository.

Pages in docs/ can link to any file of the repository. On the site, each file outside of docs/ that a page links to has
a page under `repository/`: no link is broken, and none leaves the site.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).resolve().parent))

import api_pages
import cli_page
import rest_page

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)]*)?\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages."""
    pages = {
        "index.md": linked((ROOT / "README.md").read_text(), "README.md", "index.md"),
        "reference/command-line.md": cli_page.page(),
        "reference/rest-api.md": rest_page.page(),
        **api_pages.pages(),
    }
    for path in sorted(linked_files(ROOT / "docs")):
        target = page_of(path)
        pages[target] = shown(path, target)
    for uri, text in pages.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replaces links to files outside of docs/ by links to their pages."""
    uri = page.file.src_uri
    if page.file.generated_by is not None:
        return markdown
    return linked(markdown, f"docs/{uri}", uri)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds to the navigation the pages of the API and of decisions, and the pages in docs/ that it does not contain."""
    nav = config.nav or []
    reference = next(part["Reference"] for part in nav if "Reference" in part)
    reference[-1] = {"Python API": [reference[-1], *(f"reference/api/{file}" for file in api_pages.files())]}
    decisions = sorted(f"decisions/{page.name}" for page in (ROOT / "docs/decisions").glob("[0-9]*.md"))
    concepts = next(part["Concepts"] for part in nav if "Concepts" in part)
    concepts[-1] = {"Decisions": [concepts[-1], *decisions]}
    named = {page for part in nav for entries in part.values() for page in entries if isinstance(page, str)}
    guides = next(part["Guides"] for part in nav if "Guides" in part)
    guides += sorted(page.name for page in (ROOT / "docs").glob("*.md") if page.name not in named)
    return config


def on_post_build(config: MkDocsConfig) -> None:
    """Checks the site: no page loads resources from another host, and the search index contains every page.

    Raises `PluginError` otherwise.
    """
    site = Path(config.site_dir)
    pages = {page.relative_to(site).as_posix(): page.read_text() for page in site.rglob("*.html")}
    for page, content in pages.items():
        for tag in loads_from_elsewhere(content):
            raise PluginError(f"{page} loads a resource from another host: {tag}")
    for page in unsearchable((site / "search" / "search_index.json").read_text(), pages.keys() - {"404.html"}):
        raise PluginError(f"the search index does not contain {page}")


def unsearchable(index: str, pages: Iterable[str]) -> list[str]:
    """Returns the `pages` of which the search index `index` of MkDocs contains no text."""
    found = {entry["location"].partition("#")[0] for entry in json.loads(index)["docs"] if entry["text"].strip()}
    return sorted(set(pages) - found)


def loads_from_elsewhere(html: str) -> list[str]:
    """Returns the tags of a page that make a browser send a request to another host; not links to follow."""
    tags = re.findall(r"<(?:script|link|img|iframe|source|video|audio|object|embed)\b[^>]*>", html)
    kept = [tag for tag in tags if 'rel="canonical"' not in tag]
    return [tag for tag in kept if re.search(r"""(?:src|href|data)=["']?(?:https?:)?//""", tag)]


def linked_files(docs: Path) -> set[str]:
    """Returns the files outside of docs/ that pages link to, as paths in the repository."""
    found: set[str] = set()
    for page in [ROOT / "README.md", *docs.rglob("*.md")]:
        folder = page.relative_to(ROOT).parent.as_posix()
        found |= {path for target in _targets(page.read_text()) if is_outside(path := resolved(folder, target))}
    return {path for path in found if (ROOT / path).is_file()}


def _targets(text: str) -> list[str]:
    return [match[2] for match in _LINK.finditer(text) if "://" not in match[2]]


def resolved(folder: str, target: str) -> str:
    """Returns the target of a link in `folder` as a path in the repository."""
    return posixpath.normpath(posixpath.join(folder, target))


def is_outside(path: str) -> bool:
    """Returns whether `path` is outside of docs/, and not the README, which is the home page."""
    return not path.startswith("docs/") and path != "README.md"


def page_of(path: str) -> str:
    """Returns the page of a file or folder of the repository."""
    if path == "README.md":
        return "index.md"
    if not is_outside(path):
        return path.removeprefix("docs/")
    return f"repository/{path if path.endswith('.md') else f'{path}.md'}"


def linked(text: str, source: str, uri: str) -> str:
    """Returns the text of the file `source` of the repository, with its links rewritten for the page at `uri`."""
    folder, at = posixpath.dirname(source), posixpath.dirname(uri)

    def moved(match: re.Match[str]) -> str:
        path = resolved(folder, match[2])
        if "://" in match[2] or not (ROOT / path).exists():  # or code that resembles a link
            return match[0]
        return f"{match[1]}{posixpath.relpath(page_of(path), at or '.')}{match[3]}"

    return _LINK.sub(moved, text)


def shown(path: str, uri: str) -> str:
    """Returns a file of the repository as a page: Markdown without its links, other files as a block of code."""
    content = (ROOT / path).read_text()
    if path.endswith(".md"):
        return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", content)
    return f"# {path}\n\n````{Path(path).suffix[1:]}\n{content}\n````\n"
