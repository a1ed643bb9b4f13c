"""Receives an uploaded wheel: a multipart form, written to disk as it comes, given up as soon as it is too large."""

from __future__ import annotations

import asyncio
import contextlib
import re
from email.message import Message
from pathlib import Path
from typing import BinaryIO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser
from starlette.requests import ClientDisconnect, Request

from millstream.core.environments.artifacts import WheelTooLargeError
from millstream.core.errors import InvalidProgramError
from millstream.core.files.directories import for_user_only
from millstream.dispatcher.rest.table import RestError
from millstream.dispatcher.uploads import UploadedWheel, UploadedWheels

_FIELDS = ("jarfile", "wheelfile", "file")
_FORM_OVERHEAD = 64 * 1024
_DRAIN_SECONDS = 10.0
_MOST_PARTS = 100  # each costs some 60 µs of the dispatcher's loop: a body of nothing else would hold up all requests


class _Form:
    """Finds the file's part in a form and collects its data. Everything else in the form is skipped."""

    def __init__(self, boundary: bytes) -> None:
        self.name: str | None = None
        self.ended = False
        self.data: list[bytes] = []
        self._header = bytearray()
        self._value = bytearray()
        self._disposition = ""
        self._in_file = False
        self._parts = 0
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._part_begin,
                "on_header_field": self._on_header_field,
                "on_header_value": self._on_header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._part_data,
                "on_part_end": self._part_end,
                "on_end": self._end,
            },
        )

    def feed(self, chunk: bytes) -> bytes:
        """Takes a piece of the body; returns the file's data in it."""
        self._parser.write(chunk)
        found, self.data = b"".join(self.data), []
        return found

    def _part_begin(self) -> None:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise FormParserError(f"it has more than {_MOST_PARTS} parts")
        self._disposition = ""

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value.decode(errors="replace")
        self._header.clear()
        self._value.clear()

    def _headers_finished(self) -> None:
        message = Message()
        message["content-disposition"] = self._disposition
        field = message.get_param("name", header="content-disposition")
        name = message.get_filename()
        if self.name is None and field in _FIELDS and name:
            self.name = re.split(r"[/\\]", name)[-1]
            self._in_file = True

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self.data.append(data[start:end])

    def _part_end(self) -> None:
        self._in_file = False

    def _end(self) -> None:
        self.ended = True


async def receive_upload(request: Request, uploads: UploadedWheels) -> UploadedWheel:
    """Reads the form and stores its wheel. Raises RestError: 400 with the reason of a refusal, 413 when too large."""
    form = _Form(_boundary(request))
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length) > uploads.max_size + _FORM_OVERHEAD:
        await _drain(request)
        raise _too_large(uploads)
    partial = uploads.partial()
    try:
        with await asyncio.to_thread(open, partial, "wb", opener=for_user_only) as file:
            await _write(request, form, file, uploads)
        if form.name is None or not form.ended:
            raise RestError(400, "expected one whole file in the form field 'jarfile'")
        return await uploads.add(partial, form.name)
    except FormParserError as error:
        raise RestError(400, f"the request's body is not a multipart form: {error}") from error
    except WheelTooLargeError as error:
        raise RestError(413, str(error)) from error
    except InvalidProgramError as error:
        raise RestError(400, str(error)) from error
    finally:
        await asyncio.to_thread(Path.unlink, partial, missing_ok=True)


async def _write(request: Request, form: _Form, file: BinaryIO, uploads: UploadedWheels) -> None:
    received = written = 0
    more = True
    while more:
        message = await request.receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        chunk, more = message.get("body", b""), message.get("more_body", False)
        received += len(chunk)
        data = form.feed(chunk)
        written += len(data)
        if written > uploads.max_size or received > uploads.max_size + _FORM_OVERHEAD:
            if more:
                await _drain(request)
            raise _too_large(uploads)
        if data:
            await asyncio.to_thread(file.write, data)


def _boundary(request: Request) -> bytes:
    message = Message()
    message["content-type"] = request.headers.get("content-type", "")
    boundary = message.get_param("boundary")
    if message.get_content_type() != "multipart/form-data" or not isinstance(boundary, str) or not boundary:
        raise RestError(400, "expected a multipart form with the wheel in the field 'jarfile'")
    return boundary.encode()


def _too_large(uploads: UploadedWheels) -> RestError:
    return RestError(413, f"the upload is larger than web.upload.max-size allows ({uploads.max_size} bytes)")


async def _drain(request: Request) -> None:
    """Reads the rest for a moment: many clients read a response only once they have sent everything."""
    if request.headers.get("expect", "").lower() == "100-continue":
        return
    with contextlib.suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(_DRAIN_SECONDS):
            while (await request.receive()).get("more_body"):
                pass
