"""Reading what a request brings, and writing what it is answered."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import BodyPartReader, MultipartReader, web

from ollim_bot.testing.discord.refusals import Refused, invalid_json, too_large
from ollim_bot.testing.discord.state import File, World

# discord.py takes an answer for JSON only if its type is this and no more; without `Via` it
# takes a 429 for a ban.
_HEADERS = {"Content-Type": "application/json", "Via": "1.1 local"}
_FILE = re.compile(r"files?(\[\d+\])?")


@dataclass(frozen=True, slots=True)
class Brought:
    """The body of a request, and the files that came with it."""

    body: Any
    files: list[File]


def answer(body: Any = None, *, headers: Mapping[str, str] | None = None) -> web.Response:
    """With no body: done, and nothing to say."""
    if body is None:
        return web.Response(status=204, headers={"Via": _HEADERS["Via"], **(headers or {})})
    return web.Response(body=json.dumps(body).encode(), headers={**_HEADERS, **(headers or {})})


def refusal(refused: Refused) -> web.Response:
    headers = {**_HEADERS, **refused.headers}
    return web.Response(
        status=refused.status, body=json.dumps(refused.body).encode(), headers=headers
    )


async def read(request: web.Request, world: World, largest: int) -> Brought:
    """Raises `Refused` where it is no JSON, or a file is larger than `largest`."""
    if request.content_type.startswith("multipart/"):
        return await _read_parts(request, world, largest)
    raw = await request.read()
    if raw and request.content_type != "application/json":
        message = 'Expected "Content-Type" header to be one of {"application/json"}.'
        raise Refused(400, 50035, message)
    return Brought(_parsed(raw) if raw else {}, [])


async def _read_parts(request: web.Request, world: World, largest: int) -> Brought:
    body: Any = {}
    files: list[File] = []
    reader = await request.multipart()
    assert isinstance(reader, MultipartReader)
    while (part := await reader.next()) is not None:
        assert isinstance(part, BodyPartReader)
        content = bytes(await part.read())
        if part.name == "payload_json":
            body = _parsed(content)
        elif _FILE.fullmatch(part.name or ""):
            files.append(world.new_file(part.filename or "file", content, _kind(part)))
    if any(len(each.content) > largest for each in files):
        raise too_large()
    return Brought(body, files)


def _kind(part: BodyPartReader) -> str:
    return part.headers.get("Content-Type", "application/octet-stream")


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        raise invalid_json() from None
