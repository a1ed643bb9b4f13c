"""Serves the dashboard's files. They are the same for every user and hold nothing of the cluster, so they need no role.

Neither are they guarded against links from other sites' pages: such a link may lead here. What the page then requests
is, with the caller's token, and no other page may show this one in a frame.

Files that have the hash of their content in their names are kept by browsers for good. The others are requested each
time, and sent only when they have changed.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from importlib import resources
from importlib.resources.abc import Traversable

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
_HASHED = re.compile(r"-[0-9A-Z]{8}\.")
_CACHED = "public, max-age=31536000, immutable"
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_MISSING = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Millstream</title>
<h1>This Millstream was installed without its dashboard</h1>
<p>It is built with Node: when the package was installed, there was no <code>npm</code>, or it failed. Install Node 20
or later, then the package again (from its sources: <code>pip install --force-reinstall --no-deps .</code>), and
restart the dispatcher.</p>
<p>The command line shows the same: <code>millstream list</code>, <code>millstream exceptions</code>,
<code>millstream explain-idle</code>. The API describes itself in <a href="/openapi.json">/openapi.json</a>.</p>
</html>
"""


class _File(Struct, frozen=True):
    content: bytes
    compressed: bytes
    kind: str
    etag: str
    keeps: bool

    @staticmethod
    def of(name: str, content: bytes, compressed: bytes | None, keeps: bool) -> _File:
        kind = _TYPES.get(name.rpartition(".")[2], "application/octet-stream")
        etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        return _File(content, compressed or gzip.compress(content, mtime=0), kind, etag, keeps)


def built_files() -> Traversable:
    """Where the build leaves them."""
    return resources.files("millstream.dispatcher.dashboard") / "built"


class DashboardApp:
    """An application with the dashboard at `/`; everything else is the other application's. Files are read once."""

    def __init__(self, app: ASGIApp, folder: Traversable | None = None) -> None:
        self._app = app
        self._folder = folder or built_files()
        self._files: dict[str, _File] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves the request."""
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            if self._files is None:
                self._files = _read(self._folder)
            file = self._files.get(scope["path"])
            if file is not None:
                await _response(file, Headers(scope=scope))(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _read(folder: Traversable) -> dict[str, _File]:
    page = folder / "index.html"
    if not page.is_file():
        return {"/": _File.of("index.html", _MISSING.encode(), None, keeps=False)}
    files = {"/": _File.of("index.html", page.read_bytes(), None, keeps=False)}
    for entry in (folder / "assets").iterdir():
        if not entry.name.endswith(".gz"):
            compressed = folder / "assets" / f"{entry.name}.gz"
            keeps = _HASHED.search(entry.name) is not None
            ready = compressed.read_bytes() if compressed.is_file() else None
            files[f"/assets/{entry.name}"] = _File.of(entry.name, entry.read_bytes(), ready, keeps)
    return files


def _response(file: _File, headers: Headers) -> Response:
    headers_sent = {
        **_HEADERS,
        "Cache-Control": _CACHED if file.keeps else "no-cache",
        "ETag": file.etag,
        "Vary": "Accept-Encoding",
    }
    if headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers_sent)
    if "gzip" in headers.get("accept-encoding", ""):
        return Response(file.compressed, headers={**headers_sent, "Content-Encoding": "gzip"}, media_type=file.kind)
    return Response(file.content, headers=headers_sent, media_type=file.kind)
