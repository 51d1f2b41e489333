"""What stands on the local Discord in the shape in which Discord tells it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from ollim_bot.testing.discord.refusals import Json
from ollim_bot.testing.discord.state import Channel, File, Forward, Message, User, World

_DM = 1
_TEXT = 0
_ORDINARY = 0
_REPLY = 19
_ANSWER_TO_COMMAND = 20
_FORWARD = 1
_HAS_SNAPSHOT = 1 << 14
# What Discord shows of a forwarded message; who wrote it is not among that.
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
class Papers:
    """`base` is the address of the server; `shows_nonce` whether a message still has its nonce."""

    world: World
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
        """`whole`: with the message that it replies to."""
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
        """The message as whoever forwards it now sends it on."""
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
        earlier = self.world.messages.get(reply_to)
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
