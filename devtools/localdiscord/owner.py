"""Acts as the owner: writes, clicks, reacts."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping

from devtools.localdiscord.gateway import Gateway
from devtools.localdiscord.interactions import Interaction, InteractionKind, InteractionResponses
from devtools.localdiscord.messages import (
    MessageService,
    channel_payload,
    member_payload,
    user_payload,
)
from devtools.localdiscord.routes import Commands
from devtools.localdiscord.state import Channel, DiscordState, Message, User
from devtools.localdiscord.validation import Json

_BUTTON = 2
_IN_GUILD, _IN_DM = 0, 1
_LARGEST_UPLOAD = 10 * 1024 * 1024


class OwnerActions:
    """The actions of the owner, and of other people with `as_user`. Ids name messages.

    Raises `LookupError` for actions that Discord does not offer: a click on a missing or disabled
    button, a command that is not registered.
    """

    def __init__(
        self,
        state: DiscordState,
        owner: User,
        bot: User,
        messages: MessageService,
        responses: InteractionResponses,
        commands: Commands,
        gateway: Gateway,
    ) -> None:
        self.state = state
        self.owner = owner
        self.bot = bot
        self._messages = messages
        self._responses = responses
        self._commands = commands
        self.gateway = gateway

    def say(
        self,
        text: str = "",
        *,
        files: Mapping[str, bytes] | None = None,
        reply_to: str | None = None,
        as_user: User | None = None,
        in_guild: bool = False,
    ) -> str:
        """Return the id of the message."""
        attached = [
            self.state.new_file(name, content, _kind(name))
            for name, content in (files or {}).items()
        ]
        author = as_user or self.owner
        body: Json = {"content": text}
        if reply_to:
            body["message_reference"] = {"message_id": reply_to}
        message = self._messages.draft(self._place(author, in_guild), author, body, attached)
        self._messages.publish(message)
        return message.id

    def forward(self, message_id: str) -> str:
        """Forward a message from any channel to the bot; return the id of the forward."""
        place, owner = self.state.dm_with(self.owner), self.owner
        forward = self._messages.payloads.forward_of(self.state.messages[message_id])
        message = Message(self.state.new_id(), place, owner, self.state.now(), forward=forward)
        self._messages.publish(message)
        return message.id

    def send_sticker(self) -> str:
        """Send a message without words or files; return its id."""
        place = self.state.dm_with(self.owner)
        message = Message(self.state.new_id(), place, self.owner, self.state.now())
        self._messages.publish(message)
        return message.id

    def edit(self, message_id: str, text: str) -> None:
        message = self.state.messages[message_id]
        self._messages.edit(message, message.author, {"content": text}, [])

    def delete(self, message_id: str) -> None:
        message = self.state.messages[message_id]
        self._messages.delete(message, message.author)

    def react(self, message_id: str, emoji: str, *, as_user: User | None = None) -> None:
        self._messages.react(self.state.messages[message_id], as_user or self.owner, emoji)

    def unreact(self, message_id: str, emoji: str) -> None:
        self._messages.unreact(self.state.messages[message_id], self.owner, emoji)

    def slash(
        self,
        command: str,
        /,
        *,
        as_user: User | None = None,
        in_guild: bool = False,
        **arguments: object,
    ) -> Interaction:
        return self.call(command, arguments, as_user=as_user, in_guild=in_guild)

    def call(
        self,
        command: str,
        arguments: Mapping[str, object],
        *,
        as_user: User | None = None,
        in_guild: bool = False,
    ) -> Interaction:
        spec = self._commands.named(command)
        missing = [
            each["name"]
            for each in spec.get("options", [])
            if each.get("required") and each["name"] not in arguments
        ]
        if missing:
            raise LookupError(f"/{command} is not sent without {', '.join(missing)}.")
        return self._begin(
            InteractionKind.COMMAND, spec, _options(spec, arguments), as_user, in_guild
        )

    def complete(
        self,
        command: str,
        argument: str,
        typed: str,
        /,
        *,
        as_user: User | None = None,
        in_guild: bool = False,
        **others: object,
    ) -> Interaction:
        """Type into an argument, and receive proposals."""
        spec = self._commands.named(command)
        if not _option(spec, argument).get("autocomplete"):
            raise LookupError(f"{argument} of /{command} has no completion.")
        options = _options(spec, {**others, argument: typed})
        for each in options:
            if each["name"] == argument:
                each["focused"] = True
        return self._begin(InteractionKind.COMPLETION, spec, options, as_user, in_guild)

    def click(self, message_id: str, custom_id: str, *, as_user: User | None = None) -> Interaction:
        message = self.state.messages[message_id]
        if message.is_deleted:
            raise LookupError("The message of the button is gone.")
        message.button(custom_id)
        return self.press(message, custom_id, as_user=as_user)

    def press(
        self, message: Message, custom_id: str, *, as_user: User | None = None
    ) -> Interaction:
        """Click as a forged client could, whether there is such a button or not."""
        user = as_user or self.owner
        began = self._responses.begin(InteractionKind.CLICK, user, message.channel, message)
        data = {"custom_id": custom_id, "component_type": _BUTTON, "id": 1}
        self._announce(began, data, {"message": self._messages.payloads.message(message)})
        return began

    def submit(self, asked: Interaction, words: str) -> Interaction:
        """Fill in the form that the click `asked` has opened, with the same words in each field."""
        assert asked.clicked is not None
        began = self._responses.begin(
            InteractionKind.FORM, asked.user, asked.channel, asked.clicked
        )
        rows = [
            {**row, "components": [{**each, "value": words} for each in row["components"]]}
            for row in asked.form["components"]
        ]
        data = {"custom_id": asked.form["custom_id"], "components": rows}
        self._announce(began, data, {"message": self._messages.payloads.message(asked.clicked)})
        return began

    def _begin(
        self,
        kind: InteractionKind,
        spec: Json,
        options: list[Json],
        as_user: User | None,
        in_guild: bool,
    ) -> Interaction:
        user = as_user or self.owner
        began = self._responses.begin(kind, user, self._place(user, in_guild))
        began.arguments = {each["name"]: each["value"] for each in options}
        data = {"id": spec["id"], "name": spec["name"], "type": 1, "options": options}
        self._announce(began, data, {})
        return began

    def _announce(self, began: Interaction, data: Json, more: Json) -> None:
        guild_id = began.channel.guild_id
        body: Json = {
            "id": began.id,
            "application_id": self.bot.id,
            "type": int(began.kind),
            "data": data,
            "token": began.token,
            "version": 1,
            "channel": channel_payload(began.channel),
            "channel_id": began.channel.id,
            "locale": "en-US",
            "app_permissions": "0",
            "entitlements": [],
            "authorizing_integration_owners": {"0": guild_id or "0", "1": began.user.id},
            "context": _IN_DM if began.channel.is_dm else _IN_GUILD,
            "attachment_size_limit": _LARGEST_UPLOAD,
            **more,
        }
        if guild_id:
            body["guild_id"] = guild_id
            body["guild"] = {"id": guild_id, "locale": "en-US", "features": []}
            body["member"] = member_payload(began.user)
        else:
            body["user"] = user_payload(began.user)
        self.gateway.tell("INTERACTION_CREATE", body)

    def _place(self, user: User, in_guild: bool) -> Channel:
        return self.state.guild_channel() if in_guild else self.state.dm_with(user)


def _kind(name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def _option(spec: Json, name: str) -> Json:
    for each in spec.get("options", []):
        if each["name"] == name:
            found: Json = each
            return found
    raise LookupError(f"/{spec['name']} has no {name}.")


def _options(spec: Json, arguments: Mapping[str, object]) -> list[Json]:
    return [
        {"name": name, "type": _option(spec, name)["type"], "value": value}
        for name, value in arguments.items()
    ]
