"""The gateway: sessions, events, heartbeats."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from aiohttp import WSMsgType, web

from devtools.localdiscord.messages import user_payload
from devtools.localdiscord.state import User
from devtools.localdiscord.validation import Json

_ACCEPTED = 2


PRIVILEGED = 1 << 1 | 1 << 8 | 1 << 15
MESSAGE_CONTENT = 1 << 15
_LARGEST_PAYLOAD = 4096
_MOST_PAYLOADS, _IN_SECONDS = 120, 60.0
_ENDING_CODES = (1000, 1001)


@dataclass(frozen=True, slots=True)
class Identity:
    """The application. `team` has its members, the owner first; None without a team."""

    bot: User
    owner: User
    team_id: str
    team: Sequence[User] | None = None

    def ready(self, session_id: str, gateway_url: str) -> Json:
        return {
            "v": 10,
            "user": user_payload(self.bot),
            "guilds": [],
            "private_channels": [],
            "session_id": session_id,
            "resume_gateway_url": gateway_url,
            "application": {"id": self.bot.id, "flags": 0},
        }

    def application(self) -> Json:
        return {
            "id": self.bot.id,
            "name": self.bot.name,
            "icon": None,
            "description": "",
            "summary": "",
            "bot_public": False,
            "bot_require_code_grant": False,
            "verify_key": "0" * 64,
            "flags": 0,
            "owner": user_payload(self.owner),
            "team": None,
            **self._team(),
        }

    def _team(self) -> Json:
        """For an application of a team, Discord names a made-up user as its owner."""
        if self.team is None:
            return {}
        team = {
            "id": self.team_id,
            "name": "team",
            "icon": None,
            "owner_user_id": self.owner.id,
            "members": [self._member(each) for each in self.team],
        }
        placeholder = User(self.team_id, f"team{self.team_id}")
        return {"owner": user_payload(placeholder), "team": team}

    def _member(self, user: User) -> Json:
        return {
            "membership_state": _ACCEPTED,
            "permissions": ["*"],
            "role": "admin",
            "team_id": self.team_id,
            "user": user_payload(user),
        }


class Op(IntEnum):
    DISPATCH = 0
    HEARTBEAT = 1
    IDENTIFY = 2
    PRESENCE = 3
    VOICE_STATE = 4
    RESUME = 6
    REQUEST_MEMBERS = 8
    INVALID_SESSION = 9
    HELLO = 10
    HEARTBEAT_ACK = 11


@dataclass
class GatewaySession:
    """`frames` has all its events; the sequence number of one is its position, from 1."""

    id: str
    intents: int
    frames: list[Json] = field(default_factory=list)
    line: GatewaySocket | None = None

    def add(self, event: str, data: Json) -> Json:
        frame = {"op": Op.DISPATCH, "t": event, "s": len(self.frames) + 1, "d": data}
        self.frames.append(frame)
        return frame


class GatewaySocket:
    """One socket. `write` sends the queued frames in order."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request) -> None:
        self._socket = socket
        self._request = request
        self._waiting: asyncio.Queue[Json | int] = asyncio.Queue()
        self._heard: deque[float] = deque()
        self.session: GatewaySession | None = None
        self.hears_events = True
        self.gets_acks = True
        self.is_closing = False

    async def write(self) -> None:
        while True:
            said = await self._waiting.get()
            if isinstance(said, int):
                await self._socket.close(code=said)
                return
            await self._socket.send_str(json.dumps(said))

    def is_too_fast(self, now: float) -> bool:
        """Whether the payload that arrives now exceeds the rate limit."""
        self._heard.append(now)
        while self._heard[0] <= now - _IN_SECONDS:
            self._heard.popleft()
        return len(self._heard) > _MOST_PAYLOADS

    def say(self, op: Op, data: Any = None) -> None:
        self.send({"op": op, "d": data, "s": None, "t": None})

    def send(self, frame: Json) -> None:
        self._waiting.put_nowait(frame)

    def close(self, code: int) -> None:
        """Close the socket after the queued frames."""
        self.is_closing = True
        self._waiting.put_nowait(code)

    def cut(self) -> None:
        """Break the connection without a close frame."""
        if self._request.transport is not None:
            self._request.transport.abort()


@dataclass
class Gateway:
    """`greeting` makes the body of READY for a new session. `granted` are the allowed intents.

    `identified` and `resumed` count the successful calls so far. `shown` are the words below the
    name of the bot.
    """

    token: Callable[[], str]
    greeting: Callable[[str], Json]
    new_id: Callable[[], str]
    has_changed: Callable[[], None]
    monotonic: Callable[[], float]
    heartbeat_interval: float
    granted: int
    identified: int = 0
    resumed: int = 0
    shown: str = ""
    refuses_resume: bool = False
    sessions: dict[str, GatewaySession] = field(default_factory=dict)
    lines: list[GatewaySocket] = field(default_factory=list)

    @property
    def listeners(self) -> int:
        """How many sessions have a socket that receives events now."""
        heard = (each.line for each in self.sessions.values())
        return sum(line is not None and line.hears_events for line in heard)

    def tell(self, event: str, data: Json, intent: int = 0) -> None:
        """Send the event to every session that asked for it; disconnected ones get it at resume."""
        for session in self.sessions.values():
            if intent and not session.intents & intent:
                continue
            frame = session.add(event, _as_seen_with(session.intents, event, data))
            if session.line is not None and session.line.hears_events:
                session.line.send(frame)

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        line = GatewaySocket(socket, request)
        self.lines.append(line)
        speaking = asyncio.create_task(line.write())
        line.say(Op.HELLO, {"heartbeat_interval": int(self.heartbeat_interval * 1000)})
        try:
            async for said in socket:
                if said.type is WSMsgType.TEXT:
                    self._receive(line, said.data)
        finally:
            self._disconnected(line, None if line.is_closing else socket.close_code)
            speaking.cancel()
            await asyncio.wait([speaking])
        return socket

    def _disconnected(self, line: GatewaySocket, code: int | None) -> None:
        """`code` is the close code of the client."""
        self.lines.remove(line)
        session = line.session
        if session is not None and session.line is line:
            session.line = None
            if code in _ENDING_CODES:
                self.sessions.pop(session.id, None)
        self.has_changed()

    def _receive(self, line: GatewaySocket, text: str) -> None:
        if len(text.encode()) > _LARGEST_PAYLOAD:
            line.close(4002)
            return
        if line.is_too_fast(self.monotonic()):
            line.close(4008)
            return
        said = json.loads(text)
        op, data = said.get("op"), said.get("d")
        if op == Op.HEARTBEAT:
            if line.gets_acks:
                line.say(Op.HEARTBEAT_ACK)
        elif op in (Op.IDENTIFY, Op.RESUME) and line.session is not None:
            line.close(4005)
        elif op == Op.IDENTIFY:
            self._identify(line, data)
        elif op == Op.RESUME:
            self._resume(line, data)
        elif line.session is None:
            line.close(4003)
        else:
            self._obey(line, op, data)

    def _obey(self, line: GatewaySocket, op: int, data: Json) -> None:
        if op == Op.PRESENCE:
            self._show(*data.get("activities", ()))
        elif op not in (Op.VOICE_STATE, Op.REQUEST_MEMBERS):
            line.close(4001)

    def _show(self, activity: Json | None = None) -> None:
        self.shown = (activity or {}).get("state", "")
        self.has_changed()

    def _identify(self, line: GatewaySocket, data: Json) -> None:
        if data.get("token") != self.token():
            line.close(4004)
        elif data.get("intents", 0) & ~self.granted:
            line.close(4014)
        else:
            session = GatewaySession(self.new_id(), data.get("intents", 0), line=line)
            self.sessions[session.id] = session
            line.session = session
            self.identified += 1
            self._show((data.get("presence") or {}).get("game"))
            line.send(session.add("READY", self.greeting(session.id)))
            self.has_changed()

    def _resume(self, line: GatewaySocket, data: Json) -> None:
        session = self.sessions.get(data.get("session_id", ""))
        if data.get("token") != self.token():
            line.close(4004)
        elif session is None or self.refuses_resume:
            self.sessions.pop(data.get("session_id", ""), None)
            line.say(Op.INVALID_SESSION, data=False)
        elif data.get("seq", 0) > len(session.frames):
            line.close(4007)
        else:
            line.session, session.line = session, line
            for frame in session.frames[data.get("seq") or 0 :]:
                line.send(frame)
            line.send(session.add("RESUMED", {}))
            self.resumed += 1
            self.has_changed()


def _as_seen_with(intents: int, event: str, data: Json) -> Json:
    """Without the intent, messages of others in a guild have no content."""
    is_others = event.startswith("MESSAGE_") and "guild_id" in data and "content" in data
    if not is_others or intents & MESSAGE_CONTENT:
        return data
    return {**data, "content": "", "embeds": [], "attachments": [], "components": []}
