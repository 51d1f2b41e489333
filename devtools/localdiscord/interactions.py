"""Slash commands and buttons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from devtools.localdiscord.messages import MessageService
from devtools.localdiscord.state import (
    EPHEMERAL,
    LOADING,
    Channel,
    DiscordState,
    File,
    Message,
    User,
)
from devtools.localdiscord.validation import (
    FormErrors,
    Json,
    already_acknowledged,
    check_message,
    invalid_webhook_token,
    unknown_interaction,
    unknown_message,
    unknown_webhook,
)

FIRST_ANSWER_WITHIN = 3.0
TOKEN_LASTS = 15 * 60.0


class InteractionKind(IntEnum):
    COMMAND = 2
    CLICK = 3
    COMPLETION = 4
    FORM = 5


class ResponseType(IntEnum):
    """The type of the bot's first response."""

    MESSAGE = 4
    DEFERRED_MESSAGE = 5
    DEFERRED_UPDATE = 6
    UPDATE = 7
    CHOICES = 8
    FORM = 9


_MEANT_FOR = {
    InteractionKind.COMMAND: (ResponseType.MESSAGE, ResponseType.DEFERRED_MESSAGE),
    InteractionKind.CLICK: (
        ResponseType.MESSAGE,
        ResponseType.DEFERRED_MESSAGE,
        ResponseType.DEFERRED_UPDATE,
        ResponseType.UPDATE,
        ResponseType.FORM,
    ),
    InteractionKind.FORM: (
        ResponseType.MESSAGE,
        ResponseType.DEFERRED_MESSAGE,
        ResponseType.DEFERRED_UPDATE,
        ResponseType.UPDATE,
    ),
    InteractionKind.COMPLETION: (ResponseType.CHOICES,),
}


@dataclass
class Interaction:
    """`message` is the first response, or the message of the button if that was updated.

    `form` is the form that the bot opens. `answered_after` is how many seconds the first response
    took; None without one. `late` counts responses that came too late.
    """

    id: str
    token: str
    kind: InteractionKind
    user: User
    channel: Channel
    began: float
    state: DiscordState
    clicked: Message | None = None
    answer: ResponseType | None = None
    answered_after: float | None = None
    message: Message | None = None
    arguments: Mapping[str, object] = field(default_factory=dict)
    choices: list[Json] = field(default_factory=list)
    form: Json = field(default_factory=dict)
    followups: list[Message] = field(default_factory=list)
    late: int = 0

    @property
    def is_deferred(self) -> bool:
        return self.answer in (ResponseType.DEFERRED_MESSAGE, ResponseType.DEFERRED_UPDATE)

    @property
    def is_ephemeral(self) -> bool:
        return self.message is not None and self.message.is_ephemeral

    @property
    def text(self) -> str:
        """What the person reads as the response now."""
        return self.message.text if self.message and not self.message.is_deleted else ""

    @property
    def texts(self) -> list[str]:
        """All texts of the response so far, then those of the follow-ups."""
        first = self.message.texts if self.message and self.message is not self.clicked else []
        return [each for each in first if each] + [each.text for each in self.followups]

    @property
    def has_failed(self) -> bool:
        """Whether the person reads that the interaction failed."""
        return self.answer is None and _is_past(self, FIRST_ANSWER_WITHIN)

    @property
    def is_deleted(self) -> bool:
        return self.message is not None and self.message.is_deleted

    async def answered(self, seconds: float = 60.0) -> ResponseType:
        """Wait for the first response, deferred or not; raises `TimeoutError`."""
        await self.state.until(lambda: self.answer is not None, seconds)
        assert self.answer is not None
        return self.answer

    async def said(self, seconds: float = 60.0) -> str:
        """Wait for a text; return the latest one of the response or the follow-ups."""
        await self.state.until(lambda: self.texts, seconds)
        return self.texts[-1]

    async def choice_names(self, seconds: float = 60.0) -> list[str]:
        """Wait for the proposals of a completion."""
        await self.answered(seconds)
        return [str(each["name"]) for each in self.choices]


@dataclass
class InteractionResponses:
    """Accepts the bot's responses to interactions."""

    state: DiscordState
    messages: MessageService
    bot: User
    new_token: Callable[[], str]
    all: dict[str, Interaction] = field(default_factory=dict)

    def begin(
        self, kind: InteractionKind, user: User, channel: Channel, clicked: Message | None = None
    ) -> Interaction:
        began = self.state.monotonic()
        found = Interaction(
            self.state.new_id(), self.new_token(), kind, user, channel, began, self.state, clicked
        )
        self.all[found.id] = found
        return found

    def first_answer(self, interaction_id: str, token: str, body: Json, files: list[File]) -> Json:
        found = self.all.get(interaction_id)
        if found is None or found.token != token:
            raise unknown_interaction()
        if found.answer is not None:
            raise already_acknowledged()
        if found.has_failed:
            found.late += 1
            raise unknown_interaction()
        answer = _answer(found.kind, body.get("type"))
        self._apply(found, answer, body.get("data") or {}, files)
        found.answer = answer
        found.answered_after = self.state.monotonic() - found.began
        self.state.has_changed()
        return self._receipt(found, answer)

    def _apply(
        self, found: Interaction, answer: ResponseType, data: Json, files: list[File]
    ) -> None:
        if answer is ResponseType.CHOICES:
            _check_choices(data.get("choices", []))
            found.choices = list(data.get("choices", []))
        elif answer is ResponseType.FORM:
            _check_form(data)
            found.form = data
        elif answer is ResponseType.DEFERRED_UPDATE:
            found.message = found.clicked
        elif answer is ResponseType.UPDATE:
            assert found.clicked is not None
            self.messages.change(found.clicked, data, files)
            found.message = found.clicked
        elif answer is ResponseType.DEFERRED_MESSAGE:
            found.message = self._thinking(found, data)
        else:
            found.message = self._post(found, data, files)

    def _thinking(self, found: Interaction, data: Json) -> Message:
        flags = LOADING | int(data.get("flags") or 0) & EPHEMERAL
        at, id_ = self.state.now(), self.state.new_id()
        message = Message(id_, found.channel, self.bot, at, flags=flags, interaction_id=found.id)
        self.messages.publish(message)
        return message

    def _post(self, found: Interaction, body: Json, files: Sequence[File]) -> Message:
        check_message(body)
        message = self.messages.draft(found.channel, self.bot, body, files)
        message.interaction_id = found.id
        self.messages.publish(message)
        return message

    def _receipt(self, found: Interaction, answer: ResponseType) -> Json:
        told: Json = {"id": found.id, "type": int(found.kind)}
        body: Json = {"interaction": told}
        if found.message is not None:
            told["response_message_id"] = found.message.id
            told["response_message_loading"] = found.message.is_loading
            told["response_message_ephemeral"] = found.message.is_ephemeral
            message = self.messages.payloads.message(found.message)
            body["resource"] = {"type": int(answer), "message": message}
        return body

    def with_token(self, token: str) -> Interaction:
        """Raises `DiscordError` if the token has expired, or before the first response."""
        for each in self.all.values():
            if each.token == token:
                if _is_past(each, TOKEN_LASTS):
                    each.late += 1
                    raise invalid_webhook_token()
                if each.answer is None:
                    raise unknown_webhook()
                return each
        raise unknown_webhook()

    def message(self, token: str, name: str) -> Message:
        """`name` is `@original` or the id of a follow-up."""
        found = self.with_token(token)
        named = [each for each in found.followups if each.id == name]
        if found.message is not None and name in ("@original", found.message.id):
            named = [found.message]
        if not named or named[0].is_deleted:
            raise unknown_message()
        return named[0]

    def follow_up(self, token: str, body: Json, files: Sequence[File]) -> Message:
        """Add a message; the first one after a deferred response takes its place."""
        found = self.with_token(token)
        if found.message is not None and found.message.is_loading:
            self.messages.change(found.message, body, files)
            return found.message
        message = self._post(found, body, files)
        found.followups.append(message)
        self.state.has_changed()
        return message

    def change(self, token: str, name: str, body: Json, files: Sequence[File]) -> Message:
        message = self.message(token, name)
        self.messages.change(message, body, files)
        return message

    def delete(self, token: str, name: str) -> None:
        self.messages.delete(self.message(token, name), self.bot)


def _is_past(interaction: Interaction, seconds: float) -> bool:
    return interaction.state.monotonic() - interaction.began > seconds


def _answer(kind: InteractionKind, number: object) -> ResponseType:
    for each in _MEANT_FOR[kind]:
        if each == number:
            return each
    message = "The specified interaction response type is invalid."
    raise FormErrors.of("type", "INTERACTION_RESPONSE_TYPE_INVALID", message)


def _check_form(data: Json) -> None:
    form = FormErrors()
    form.between("data.title", data.get("title"), 1, 45)
    form.between("data.custom_id", data.get("custom_id"), 1, 100)
    for row in data.get("components", []):
        for each in row.get("components", []):
            form.between("data.components.label", each.get("label"), 1, 45)
            form.between("data.components.custom_id", each.get("custom_id"), 1, 100)
    form.check()


def _check_choices(choices: list[Json]) -> None:
    form = FormErrors()
    form.at_most("data.choices", choices, 25)
    for number, choice in enumerate(choices):
        form.between(f"data.choices.{number}.name", choice.get("name"), 1, 100)
        form.at_most(f"data.choices.{number}.value", choice.get("value"), 100)
    form.check()
