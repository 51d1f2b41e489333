"""The REST routes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from aiohttp import BodyPartReader, MultipartReader, web

from devtools.localdiscord.faults import Buckets
from devtools.localdiscord.interactions import InteractionResponses
from devtools.localdiscord.messages import MessageService, channel_payload, user_payload
from devtools.localdiscord.state import Channel, DiscordState, File, Message, User
from devtools.localdiscord.validation import (
    DiscordError,
    FormErrors,
    Json,
    check_commands,
    invalid_json,
    missing_access,
    not_found,
    not_in_a_dm,
    too_large,
    unknown_user,
    unknown_webhook,
)

# discord.py reads an answer as JSON only for exactly this type, and a 429 without `Via` as a ban.
_HEADERS = {"Content-Type": "application/json", "Via": "1.1 local"}
_FILE = re.compile(r"files?(\[\d+\])?")


_MESSAGES = "/channels/{channel}/messages"
_MESSAGE = _MESSAGES + "/{message}"
_REACTION = _MESSAGE + "/reactions/{emoji}"
_WEBHOOK = "/webhooks/{app}/{token}"
_WEBHOOK_MESSAGE = _WEBHOOK + "/messages/{message}"


@dataclass(frozen=True, slots=True)
class RequestContent:
    """The body of a request, and the files that came with it."""

    body: Any
    files: list[File]


def answer(body: Any = None, *, headers: Mapping[str, str] | None = None) -> web.Response:
    """An empty answer (204) without a body."""
    if body is None:
        return web.Response(status=204, headers={"Via": _HEADERS["Via"], **(headers or {})})
    return web.Response(body=json.dumps(body).encode(), headers={**_HEADERS, **(headers or {})})


def refusal(refused: DiscordError) -> web.Response:
    headers = {**_HEADERS, **refused.headers}
    return web.Response(
        status=refused.status, body=json.dumps(refused.body).encode(), headers=headers
    )


async def read(request: web.Request, state: DiscordState, largest: int) -> RequestContent:
    """Raises `DiscordError` for invalid JSON, or a file larger than `largest`."""
    if request.content_type.startswith("multipart/"):
        return await _read_parts(request, state, largest)
    raw = await request.read()
    if raw and request.content_type != "application/json":
        message = 'Expected "Content-Type" header to be one of {"application/json"}.'
        raise DiscordError(400, 50035, message)
    return RequestContent(_parsed(raw) if raw else {}, [])


async def _read_parts(request: web.Request, state: DiscordState, largest: int) -> RequestContent:
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
            files.append(state.new_file(part.filename or "file", content, _kind(part)))
    if any(len(each.content) > largest for each in files):
        raise too_large()
    return RequestContent(body, files)


def _kind(part: BodyPartReader) -> str:
    return part.headers.get("Content-Type", "application/octet-stream")


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        raise invalid_json() from None


@dataclass
class Commands:
    """`puts` counts the uploads."""

    all: list[Json] = field(default_factory=list)
    puts: int = 0

    def named(self, name: str) -> Json:
        for each in self.all:
            if each["name"] == name:
                return each
        raise LookupError(f"There is no command /{name}.")


@dataclass
class Routes:
    """`application` makes the payload of the bot's own application."""

    state: DiscordState
    bot: User
    messages: MessageService
    buckets: Buckets
    commands: Commands
    application: Callable[[], Json]
    largest_file: int
    typing: list[tuple[str, float]] = field(default_factory=list)

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/users/@me", self._me),
            web.get("/users/{user}", self._user),
            web.post("/users/@me/channels", self._open_dm),
            web.get("/oauth2/applications/@me", self._application),
            web.get("/applications/@me", self._application),
            web.get("/applications/{app}/commands", self._get_commands),
            web.put("/applications/{app}/commands", self._put_commands),
            web.get("/channels/{channel}", self._get_channel),
            web.post("/channels/{channel}/typing", self._typing),
            web.get(_MESSAGES, self._history),
            web.post(_MESSAGES, self._send),
            web.get(_MESSAGE, self._get_message),
            web.patch(_MESSAGE, self._edit),
            web.delete(_MESSAGE, self._delete),
            web.put(_REACTION + "/@me", self._react),
            web.delete(_REACTION + "/@me", self._unreact),
            web.delete(_REACTION + "/{user}", self._not_in_a_dm),
            web.delete(_MESSAGE + "/reactions", self._not_in_a_dm),
            web.get(_REACTION, self._who_reacted),
        ]

    async def _me(self, _: web.Request) -> web.Response:
        return answer(user_payload(self.bot))

    async def _user(self, request: web.Request) -> web.Response:
        return answer(user_payload(self.state.user(request.match_info["user"])))

    async def _open_dm(self, request: web.Request) -> web.Response:
        content = await self._read(request)
        person = self.state.user(str(content.body.get("recipient_id")))
        if person == self.bot:
            raise unknown_user()
        return answer(channel_payload(self.state.dm_with(person)))

    async def _application(self, _: web.Request) -> web.Response:
        return answer(self.application())

    async def _get_commands(self, request: web.Request) -> web.Response:
        self._check_application(request)
        return answer(self.commands.all)

    async def _put_commands(self, request: web.Request) -> web.Response:
        self._check_application(request)
        wanted = (await self._read(request)).body
        check_commands(wanted)
        ids = {each["name"]: each["id"] for each in self.commands.all}
        self.commands.all = [self._command(each, ids.get(each["name"])) for each in wanted]
        self.commands.puts += 1
        self.state.has_changed()
        return answer(self.commands.all)

    def _command(self, wanted: Json, known: str | None) -> Json:
        return {
            "type": 1,
            "default_member_permissions": None,
            "dm_permission": True,
            "nsfw": False,
            **wanted,
            "id": known or self.state.new_id(),
            "application_id": self.bot.id,
            "version": self.state.new_id(),
        }

    def _check_application(self, request: web.Request) -> None:
        if request.match_info["app"] != self.bot.id:
            raise DiscordError(404, 10002, "Unknown Application")

    async def _get_channel(self, request: web.Request) -> web.Response:
        return answer(channel_payload(self._channel(request)))

    async def _typing(self, request: web.Request) -> web.Response:
        self.typing.append((self._channel(request).id, self.state.monotonic()))
        self.state.has_changed()
        return answer()

    async def _history(self, request: web.Request) -> web.Response:
        visible = list(self.state.visible(self._channel(request)))
        chosen = page_of(visible, request.query)
        return answer([self.messages.payloads.message(each) for each in chosen])

    async def _send(self, request: web.Request) -> web.Response:
        channel = self._channel(request)
        headers = self.buckets.take("send", channel.id)
        content = await self._read(request)
        sent = self.messages.send(channel, self.bot, content.body, content.files)
        return answer(self.messages.payloads.message(sent), headers=headers)

    async def _get_message(self, request: web.Request) -> web.Response:
        return answer(self.messages.payloads.message(self._message(request)))

    async def _edit(self, request: web.Request) -> web.Response:
        headers = self.buckets.take("edit", self._channel(request).id)
        content = await self._read(request)
        message = self._message(request)
        self.messages.edit(message, self.bot, content.body, content.files)
        return answer(self.messages.payloads.message(message), headers=headers)

    async def _delete(self, request: web.Request) -> web.Response:
        message = self._message(request)
        headers = self.buckets.take(self._deletion(message), message.channel.id)
        self.messages.delete(message, self.bot)
        return answer(headers=headers)

    def _deletion(self, message: Message) -> str:
        """Deletions are counted apart by the age of the message."""
        age = self.state.now() - message.at
        if age < timedelta(seconds=10):
            return "delete"
        return "delete_older" if age < timedelta(weeks=2) else "delete_ancient"

    async def _react(self, request: web.Request) -> web.Response:
        headers = self.buckets.take("react", self._channel(request).id)
        self.messages.react(self._message(request), self.bot, request.match_info["emoji"])
        return answer(headers=headers)

    async def _unreact(self, request: web.Request) -> web.Response:
        headers = self.buckets.take("react", self._channel(request).id)
        self.messages.unreact(self._message(request), self.bot, request.match_info["emoji"])
        return answer(headers=headers)

    async def _who_reacted(self, request: web.Request) -> web.Response:
        people = self._message(request).reactions.get(request.match_info["emoji"], [])
        return answer([user_payload(each) for each in people])

    async def _not_in_a_dm(self, request: web.Request) -> web.Response:
        self._message(request)
        raise not_in_a_dm()

    def _channel(self, request: web.Request) -> Channel:
        channel = self.state.channel(request.match_info["channel"])
        if not channel.is_dm:
            raise missing_access()
        return channel

    def _message(self, request: web.Request) -> Message:
        return self.state.message(self._channel(request), request.match_info["message"])

    async def _read(self, request: web.Request) -> RequestContent:
        return await read(request, self.state, self.largest_file)


async def nothing_there(_: web.Request) -> web.Response:
    raise not_found()


def page_of(visible: Sequence[Message], query: Mapping[str, str]) -> list[Message]:
    """One page of the history, newest first: the newest messages, or those next to a given id."""
    return _chosen(list(visible), query, _limit(query.get("limit", "50")))[::-1]


def _chosen(visible: list[Message], query: Mapping[str, str], limit: int) -> list[Message]:
    if "after" in query:
        return [each for each in visible if int(each.id) > int(query["after"])][:limit]
    if "before" in query:
        return [each for each in visible if int(each.id) < int(query["before"])][-limit:]
    if "around" in query:
        middle = int(query["around"])
        before = [each for each in visible if int(each.id) < middle][-(limit // 2) :]
        return [*before, *(each for each in visible if int(each.id) >= middle)][:limit]
    return visible[-limit:]


def _limit(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100:
        raise FormErrors.of("limit", "NUMBER_TYPE_MAX", "int value should be between 1 and 100.")
    return int(text)


@dataclass
class InteractionRoutes:
    responses: InteractionResponses
    buckets: Buckets
    largest_file: int

    def table(self) -> list[web.RouteDef]:
        return [
            web.post("/interactions/{id}/{token}/callback", self._callback),
            web.post(_WEBHOOK, self._follow_up),
            web.get(_WEBHOOK_MESSAGE, self._get),
            web.patch(_WEBHOOK_MESSAGE, self._change),
            web.delete(_WEBHOOK_MESSAGE, self._delete),
        ]

    async def _callback(self, request: web.Request) -> web.Response:
        content = await self._read(request)
        names = request.match_info
        receipt = self.responses.first_answer(
            names["id"], names["token"], content.body, content.files
        )
        wants = request.query.get("with_response", "").lower() in ("1", "true")
        return answer(receipt if wants else None)

    async def _follow_up(self, request: web.Request) -> web.Response:
        token, headers = self._take(request)
        content = await self._read(request)
        message = self.responses.follow_up(token, content.body, content.files)
        return answer(self.responses.messages.payloads.message(message), headers=headers)

    async def _get(self, request: web.Request) -> web.Response:
        token, headers = self._take(request)
        message = self.responses.message(token, request.match_info["message"])
        return answer(self.responses.messages.payloads.message(message), headers=headers)

    async def _change(self, request: web.Request) -> web.Response:
        token, headers = self._take(request)
        content = await self._read(request)
        name = request.match_info["message"]
        message = self.responses.change(token, name, content.body, content.files)
        return answer(self.responses.messages.payloads.message(message), headers=headers)

    async def _delete(self, request: web.Request) -> web.Response:
        token, headers = self._take(request)
        self.responses.delete(token, request.match_info["message"])
        return answer(headers=headers)

    def _take(self, request: web.Request) -> tuple[str, dict[str, str]]:
        if request.match_info["app"] != self.responses.bot.id:
            raise unknown_webhook()
        token = request.match_info["token"]
        return token, dict(self.buckets.take("webhook", token))

    async def _read(self, request: web.Request) -> RequestContent:
        return await read(request, self.responses.state, self.largest_file)
