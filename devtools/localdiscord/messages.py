"""Sends and edits messages, and renders them as payloads."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from devtools.localdiscord.faults import Buckets
from devtools.localdiscord.state import (
    SUPPRESS_EMBEDS,
    Channel,
    DiscordState,
    File,
    Forward,
    Message,
    User,
)
from devtools.localdiscord.validation import (
    FormErrors,
    Json,
    anothers_message,
    check_message,
    check_not_empty,
    not_in_a_dm,
    too_many_reactions,
    trimmed,
    unknown_emoji,
)

_DM = 1
_TEXT = 0
_ORDINARY = 0
_REPLY = 19
_ANSWER_TO_COMMAND = 20
_FORWARD = 1
_HAS_SNAPSHOT = 1 << 14
# What Discord shows of a forwarded message, which does not include its author.
_IN_A_SNAPSHOT = (
    "type",
    "content",
    "embeds",
    "attachments",
    "timestamp",
    "edited_timestamp",
    "flags",
    "mentions",
    "mention_roles",
    "components",
)


DM_MESSAGES, GUILD_MESSAGES = 1 << 12, 1 << 9
DM_REACTIONS, GUILD_REACTIONS = 1 << 13, 1 << 10
_MOST_REACTIONS = 20
_NONCE_WINDOW = 180.0
_OLD = timedelta(hours=1)
_CUSTOM_EMOJI = re.compile(r"\w{2,32}:\d+")


def user_payload(user: User) -> Json:
    return {
        "id": user.id,
        "username": user.name,
        "global_name": user.name,
        "discriminator": "0",
        "avatar": None,
        "bot": user.is_bot,
        "public_flags": 0,
    }


def member_payload(user: User) -> Json:
    return {
        "user": user_payload(user),
        "roles": [],
        "joined_at": "2026-01-01T00:00:00.000000+00:00",
        "deaf": False,
        "mute": False,
        "flags": 0,
        "permissions": "0",
    }


def channel_payload(channel: Channel) -> Json:
    if channel.person is not None:
        people = [user_payload(channel.person)]
        return {"id": channel.id, "type": _DM, "recipients": people, "last_message_id": None}
    return {
        "id": channel.id,
        "type": _TEXT,
        "guild_id": channel.guild_id,
        "name": "general",
        "position": 0,
        "permission_overwrites": [],
        "nsfw": False,
        "parent_id": None,
        "permissions": "0",
    }


def emoji_payload(emoji: str) -> Json:
    name, _, number = emoji.partition(":")
    return {"name": name, "id": number or None}


@dataclass(frozen=True, slots=True)
class MessagePayloads:
    """Renders messages as JSON payloads.

    `base` is the address of the server; `shows_nonce` tells whether a message still has its nonce.
    """

    state: DiscordState
    bot: User
    base: Callable[[], str]
    shows_nonce: Callable[[Message], bool]

    def file(self, channel: Channel, file: File) -> Json:
        url = f"{self.base()}/attachments/{channel.id}/{file.id}/{quote(file.name)}"
        return {
            "id": file.id,
            "filename": file.name,
            "size": len(file.content),
            "url": url,
            "proxy_url": url,
            "content_type": file.kind,
        }

    def reactions(self, message: Message) -> list[Json]:
        return [
            {
                "emoji": emoji_payload(emoji),
                "count": len(people),
                "me": self.bot in people,
                "me_burst": False,
                "count_details": {"burst": 0, "normal": len(people)},
                "burst_colors": [],
            }
            for emoji, people in message.reactions.items()
        ]

    def message(self, message: Message, *, whole: bool = True) -> Json:
        """`whole` includes the message that it replies to."""
        edited = message.edited_at
        body: Json = {
            "id": message.id,
            "channel_id": message.channel.id,
            "author": user_payload(message.author),
            "content": message.text,
            "timestamp": message.at.isoformat(timespec="microseconds"),
            "edited_timestamp": edited and edited.isoformat(timespec="microseconds"),
            "tts": False,
            "mention_everyone": False,
            "mentions": [],
            "mention_roles": [],
            "attachments": [self.file(message.channel, each) for each in message.files],
            "embeds": message.embeds,
            "components": message.components,
            "pinned": False,
            "type": self._type(message),
            "flags": message.flags,
        }
        if message.reactions:
            body["reactions"] = self.reactions(message)
        if message.nonce and self.shows_nonce(message):
            body["nonce"] = message.nonce
        if message.forward is not None:
            body |= _forwarded(message, message.forward)
        if message.reply_to and whole:
            body |= self._reference(message, message.reply_to)
        if message.channel.guild_id:
            body["guild_id"] = message.channel.guild_id
        return body

    def forward_of(self, message: Message) -> Forward:
        """The message in the form in which it is forwarded now."""
        whole = self.message(message)
        reference: Json = {
            "type": _FORWARD,
            "message_id": message.id,
            "channel_id": message.channel.id,
        }
        if message.channel.guild_id:
            reference["guild_id"] = message.channel.guild_id
        return Forward(reference, {name: whole[name] for name in _IN_A_SNAPSHOT})

    def _type(self, message: Message) -> int:
        if message.interaction_id:
            return _ANSWER_TO_COMMAND
        return _REPLY if message.reply_to else _ORDINARY

    def _reference(self, message: Message, reply_to: str) -> Json:
        earlier = self.state.messages.get(reply_to)
        is_there = earlier is not None and not earlier.is_deleted
        return {
            "message_reference": {"message_id": reply_to, "channel_id": message.channel.id},
            "referenced_message": self.message(earlier, whole=False)
            if earlier is not None and is_there
            else None,
        }


def _forwarded(message: Message, forward: Forward) -> Json:
    return {
        "message_reference": forward.reference,
        "message_snapshots": [{"message": forward.snapshot}],
        "flags": message.flags | _HAS_SNAPSHOT,
    }


@dataclass
class MessageService:
    """Sends, edits and deletes messages, and announces each change.

    `nonces` has the remembered nonces, each with its message and its time.
    """

    state: DiscordState
    payloads: MessagePayloads
    buckets: Buckets
    tell: Callable[[str, Json, int], None]
    nonces: dict[str, tuple[str, float]] = field(default_factory=dict)

    def remembered(self, nonce: str) -> Message | None:
        message_id, since = self.nonces.get(nonce, ("", 0.0))
        if not message_id or self.state.monotonic() - since > _NONCE_WINDOW:
            return None
        return self.state.messages[message_id]

    def send(self, channel: Channel, author: User, body: Json, files: Sequence[File]) -> Message:
        """Return the earlier message if the body enforces its nonce and the nonce is remembered."""
        check_message(body)
        nonce = str(body.get("nonce") or "")
        if nonce and body.get("enforce_nonce") and (earlier := self.remembered(nonce)):
            return earlier
        message = self.draft(channel, author, body, files)
        if nonce:
            self.nonces[nonce] = (message.id, self.state.monotonic())
        self.publish(message)
        return message

    def draft(self, channel: Channel, author: User, body: Json, files: Sequence[File]) -> Message:
        """A message that is not announced yet."""
        text = str(body.get("content") or "").strip()
        embeds = [trimmed(each) for each in body.get("embeds") or []]
        flags = int(body.get("flags") or 0)
        check_not_empty(text, embeds, len(files), flags)
        reply_to = self._reply_to(channel, body.get("message_reference"))
        return Message(
            self.state.new_id(),
            channel,
            author,
            self.state.now(),
            text,
            embeds,
            list(body.get("components") or []),
            list(files),
            str(body.get("nonce") or ""),
            reply_to,
            flags,
        )

    def publish(self, message: Message) -> None:
        self.state.messages[message.id] = message
        message.keep_version(message.at)
        self._announce("MESSAGE_CREATE", message)

    def change(self, message: Message, body: Json, files: Sequence[File]) -> None:
        """Change only the fields that the body names."""
        check_message(body)
        text = str(body.get("content") or "").strip() if "content" in body else message.text
        embeds = message.embeds
        if "embeds" in body:
            embeds = [trimmed(each) for each in body["embeds"] or []]
        kept = _kept(message.files, body.get("attachments"))
        check_not_empty(text, embeds, len(kept) + len(files), message.flags)
        message.text, message.embeds = text, embeds
        if "flags" in body:
            kept_flags = message.flags & ~SUPPRESS_EMBEDS
            message.flags = kept_flags | int(body["flags"] or 0) & SUPPRESS_EMBEDS
        message.files = [*kept, *files]
        if "components" in body:
            message.components = list(body["components"] or [])
        if message.is_loading:
            message.stop_loading()
        else:
            message.edited_at = self.state.now()
        message.keep_version(self.state.now())
        self._announce("MESSAGE_UPDATE", message)

    def edit(self, message: Message, editor: User, body: Json, files: Sequence[File]) -> None:
        if message.author != editor:
            raise anothers_message()
        if editor.is_bot and self.state.now() - message.at > _OLD:
            self.buckets.take_old_edit(message.channel.id)
        self.change(message, body, files)

    def delete(self, message: Message, by: User) -> None:
        if message.author != by:
            raise not_in_a_dm()
        message.is_deleted = True
        data = {"id": message.id, "channel_id": message.channel.id}
        self._tell("MESSAGE_DELETE", data, message, DM_MESSAGES, GUILD_MESSAGES)

    def react(self, message: Message, person: User, emoji: str) -> None:
        if emoji.isascii() and not _CUSTOM_EMOJI.fullmatch(emoji):
            raise unknown_emoji()
        if emoji not in message.reactions and len(message.reactions) >= _MOST_REACTIONS:
            raise too_many_reactions()
        people = message.reactions.setdefault(emoji, [])
        if person not in people:
            people.append(person)
            data = self._reaction(message, person, emoji)
            data["message_author_id"] = message.author.id
            if message.channel.guild_id:
                data["member"] = member_payload(person)
            self._tell("MESSAGE_REACTION_ADD", data, message, DM_REACTIONS, GUILD_REACTIONS)

    def unreact(self, message: Message, person: User, emoji: str) -> None:
        people = message.reactions.get(emoji, [])
        if person not in people:
            raise unknown_emoji()
        people.remove(person)
        if not people:
            del message.reactions[emoji]
        data = self._reaction(message, person, emoji)
        self._tell("MESSAGE_REACTION_REMOVE", data, message, DM_REACTIONS, GUILD_REACTIONS)

    def _reaction(self, message: Message, person: User, emoji: str) -> Json:
        return {
            "user_id": person.id,
            "channel_id": message.channel.id,
            "message_id": message.id,
            "emoji": emoji_payload(emoji),
            "burst": False,
            "type": 0,
        }

    def _announce(self, event: str, message: Message) -> None:
        data = self.payloads.message(message)
        if message.channel.guild_id and not message.author.is_bot:
            data["member"] = member_payload(message.author)
        self._tell(event, data, message, DM_MESSAGES, GUILD_MESSAGES)

    def _tell(self, event: str, data: Json, message: Message, dm: int, guild: int) -> None:
        if not message.is_ephemeral:
            if message.channel.guild_id:
                data["guild_id"] = message.channel.guild_id
            self.tell(event, data, dm if message.channel.is_dm else guild)
        self.state.has_changed()

    def _reply_to(self, channel: Channel, reference: Any) -> str | None:
        if not reference:
            return None
        message_id = str(reference.get("message_id"))
        earlier = self.state.messages.get(message_id)
        if earlier is not None and earlier.channel == channel and not earlier.is_deleted:
            return message_id
        if reference.get("fail_if_not_exists", True):
            raise FormErrors.of("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
        return None


def _kept(files: Sequence[File], attachments: list[Json] | None) -> list[File]:
    """The files that an edit names; all if it names none at all."""
    if attachments is None:
        return list(files)
    named = {str(each.get("id")) for each in attachments}
    return [each for each in files if each.id in named]
