"""Users, channels and messages of the local Discord."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from devtools.localdiscord.validation import Json, unknown_channel, unknown_message, unknown_user

_EPOCH = datetime(2015, 1, 1, tzinfo=UTC)
LOADING = 1 << 7
EPHEMERAL = 1 << 6
SUPPRESS_EMBEDS = 1 << 2


@dataclass(frozen=True, slots=True)
class User:
    id: str
    name: str
    is_bot: bool = False


@dataclass(frozen=True, slots=True)
class Channel:
    """The direct messages of the bot with `person`, or a channel of a guild."""

    id: str
    person: User | None = None
    guild_id: str | None = None

    @property
    def is_dm(self) -> bool:
        return self.guild_id is None


@dataclass(frozen=True, slots=True)
class File:
    id: str
    name: str
    content: bytes
    kind: str = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Version:
    """The content of a message from a moment on."""

    text: str
    at: datetime
    embeds: tuple[Json, ...] = ()
    components: tuple[Json, ...] = ()
    flags: int = 0


@dataclass(frozen=True, slots=True)
class Forward:
    """The forwarded message as Discord shows it: its content then, without its author."""

    reference: Json
    snapshot: Json


@dataclass
class Message:
    """`reactions` has the users by emoji; `versions` all contents so far, the newest last."""

    id: str
    channel: Channel
    author: User
    at: datetime
    text: str = ""
    embeds: list[Json] = field(default_factory=list)
    components: list[Json] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    nonce: str = ""
    reply_to: str | None = None
    flags: int = 0
    interaction_id: str | None = None
    forward: Forward | None = None
    reactions: dict[str, list[User]] = field(default_factory=dict)
    versions: list[Version] = field(default_factory=list)
    edited_at: datetime | None = None
    is_deleted: bool = False

    @property
    def texts(self) -> list[str]:
        """All texts so far, without repetitions in a row."""
        found: list[str] = []
        for version in self.versions:
            if not found or found[-1] != version.text:
                found.append(version.text)
        return found

    @property
    def is_ephemeral(self) -> bool:
        return bool(self.flags & EPHEMERAL)

    @property
    def is_loading(self) -> bool:
        """Whether the bot is shown as thinking."""
        return bool(self.flags & LOADING)

    @property
    def buttons(self) -> list[Json]:
        """All buttons in order, also disabled ones."""
        return [each for row in self.components for each in row.get("components", [])]

    def button(self, custom_id: str) -> Json:
        for each in self.buttons:
            if each.get("custom_id") == custom_id:
                if each.get("disabled"):
                    raise LookupError(f"The button {custom_id!r} is disabled.")
                return each
        raise LookupError(f"There is no button {custom_id!r} below {self.text!r}.")

    def stop_loading(self) -> None:
        """End the `thinking` state."""
        self.flags &= ~LOADING

    def keep_version(self, at: datetime) -> None:
        content = (tuple(self.embeds), tuple(self.components), self.flags)
        self.versions.append(Version(self.text, at, *content))


class DiscordState:
    """`now` is the wall clock, which the ids contain; `monotonic` measures durations."""

    def __init__(self, now: Callable[[], datetime], monotonic: Callable[[], float]) -> None:
        self.now = now
        self.monotonic = monotonic
        self.users: dict[str, User] = {}
        self.channels: dict[str, Channel] = {}
        self.messages: dict[str, Message] = {}
        self.files: dict[str, File] = {}
        self._last_id = 0
        self._changed = asyncio.Event()

    def new_id(self) -> str:
        """A snowflake: it contains the time, and is greater than all before."""
        since = int((self.now() - _EPOCH).total_seconds() * 1000)
        self._last_id = max(self._last_id + 1, since << 22)
        return str(self._last_id)

    def new_user(self, name: str, *, is_bot: bool = False) -> User:
        user = User(self.new_id(), name, is_bot)
        self.users[user.id] = user
        return user

    def user(self, user_id: str) -> User:
        if user_id not in self.users:
            raise unknown_user()
        return self.users[user_id]

    def new_channel(self, *, person: User | None = None, guild_id: str | None = None) -> Channel:
        channel = Channel(self.new_id(), person, guild_id)
        self.channels[channel.id] = channel
        return channel

    def channel(self, channel_id: str) -> Channel:
        if channel_id not in self.channels:
            raise unknown_channel()
        return self.channels[channel_id]

    def dm_with(self, person: User) -> Channel:
        for channel in self.channels.values():
            if channel.is_dm and channel.person == person:
                return channel
        return self.new_channel(person=person)

    def guild_channel(self) -> Channel:
        for channel in self.channels.values():
            if not channel.is_dm:
                return channel
        return self.new_channel(guild_id=self.new_id())

    def new_file(self, name: str, content: bytes, kind: str) -> File:
        file = File(self.new_id(), name, content, kind)
        self.files[file.id] = file
        return file

    def message(self, channel: Channel, message_id: str) -> Message:
        """Raises `DiscordError` if the message is missing, deleted or ephemeral."""
        found = self.messages.get(message_id)
        if found is None or found.channel != channel or found.is_deleted or found.is_ephemeral:
            raise unknown_message()
        return found

    def visible(self, channel: Channel) -> Iterator[Message]:
        """The visible messages, oldest first."""
        for each in self.messages.values():
            if each.channel == channel and not each.is_deleted and not each.is_ephemeral:
                yield each

    def has_changed(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def until(self, is_so: Callable[[], object], seconds: float | None) -> None:
        """Wait for the condition; raises `TimeoutError`."""
        async with asyncio.timeout(seconds):
            while not is_so():
                await self._changed.wait()
