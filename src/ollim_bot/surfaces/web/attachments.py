"""Files that came with messages, as the page shows or downloads them."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import BinaryIO
from urllib.parse import quote

from aiohttp import web

from ollim_bot.chat import OpenAttachment
from ollim_bot.domain.chat import Attachment
from ollim_bot.surfaces.web import texts
from ollim_bot.surfaces.web.refusals import Refused

_CHUNK = 256 * 1024
_LONGEST_MARK = 12


async def send_attachment(
    request: web.Request, attachment: Attachment, opener: OpenAttachment
) -> web.StreamResponse:
    """Images of the common kinds are to be shown, all else to be saved, whatever its name says."""
    try:
        file = await asyncio.to_thread(opener, attachment)
    except (OSError, ValueError):
        raise Refused(404, texts.NO_ATTACHMENT) from None
    try:
        return await _send(request, attachment.name, file)
    finally:
        file.close()


async def _send(request: web.Request, name: str, file: BinaryIO) -> web.StreamResponse:
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise Refused(404, texts.NO_ATTACHMENT)
    first = await asyncio.to_thread(file.read, _CHUNK)
    kind = _image_type(first[:_LONGEST_MARK])
    how = "inline" if kind else "attachment"
    answer = web.StreamResponse(
        headers={
            "Content-Disposition": f"{how}; filename*=UTF-8''{_quoted(name)}",
            "Content-Type": kind or "application/octet-stream",
            "Content-Security-Policy": "default-src 'none'; sandbox",
        }
    )
    answer.content_length = status.st_size
    await answer.prepare(request)
    if request.method != "HEAD":
        await _write(answer, first, file, status.st_size)
    return answer


async def _write(answer: web.StreamResponse, first: bytes, file: BinaryIO, size: int) -> None:
    """No more than was promised, though the file may have grown."""
    chunk = first
    while chunk and size > 0:
        await answer.write(chunk[:size])
        size -= len(chunk)
        chunk = await asyncio.to_thread(file.read, _CHUNK)
    await answer.write_eof()


def _image_type(start: bytes) -> str | None:
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "image/webp"
    return None


def _quoted(name: str) -> str:
    return quote(name, safe="", errors="replace")
