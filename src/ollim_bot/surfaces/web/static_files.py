"""The page's own files: what stands in its folder under a plain name, and nothing else."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

from aiohttp import web

from ollim_bot.surfaces.web import texts
from ollim_bot.surfaces.web.refusals import Refused

FOLDER = Path(__file__).parent / "static"
PAGE = "index.html"

_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


async def send_page(folder: str) -> web.Response:
    """`folder` stands for the one of the files: a name that nobody could know before this start.

    So none of them can have been left in the browser's cache by who had the port before.
    """
    content = await asyncio.to_thread(_content, PAGE)
    if content is None:
        raise Refused(404, texts.NO_PAGE)
    body = content.replace(b'"/static/', f'"/static/{folder}/'.encode())
    return web.Response(body=body, content_type="text/html", charset="utf-8")


async def send_static(request: web.Request, name: str) -> web.Response:
    """The browser asks each time and is sent only what has changed, so an update shows at once."""
    content = await asyncio.to_thread(_content, name)
    if content is None:
        raise Refused(404, texts.NOT_FOUND)
    tag = hashlib.sha256(content).hexdigest()[:32]
    headers = {"ETag": f'"{tag}"', "Cache-Control": "no-cache"}
    if any(each.value == tag or each.value == "*" for each in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    kind = _TYPES[Path(name).suffix]
    charset = "utf-8" if kind.startswith("text/") else None
    return web.Response(body=content, content_type=kind, charset=charset, headers=headers)


def _content(name: str) -> bytes | None:
    """By a look at what is there, so that no spelling of a name leads out of the folder."""
    for path in FOLDER.iterdir():
        if path.name == name and path.suffix in _TYPES and not path.is_symlink():
            return path.read_bytes() if path.is_file() else None
    return None
