"""Slash commands and buttons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from devtools.localdiscord.messages import Postings
from devtools.localdiscord.refusals import (
    Form,
    Json,
    already_acknowledged,
    check_message,
    invalid_webhook_token,
    unknown_interaction,
    unknown_message,
    unknown_webhook,
)
from devtools.localdiscord.state import EPHEMERAL, LOADING, Channel, File, Message, User, World

FIRST_ANSWER_WITHIN = 3.0
TOKEN_LASTS = 15 * 60.0


class Kind(IntEnum):
    COMMAND = 2
    CLICK = 3
    COMPLETION = 4


class Answer(IntEnum):
    """How the bot answers at first."""

    MESSAGE = 4
    DEFERRED_MESSAGE = 5
    DEFERRED_UPDATE = 6
    UPDATE = 7
    CHOICES = 8


_MEANT_FOR = {
    Kind.COMMAND: (Answer.MESSAGE, Answer.DEFERRED_MESSAGE),
    Kind.CLICK: (Answer.MESSAGE, Answer.DEFERRED_MESSAGE, Answer.DEFERRED_UPDATE, Answer.UPDATE),
    Kind.COMPLETION: (Answer.CHOICES,),
}


@dataclass
class Interaction:
    """`message` is the first answer, or the message of the button where that is what was changed.

    `answered_after` is how many seconds the first answer took; None while there is none. `late`
    is how often the bot came too late.
    """

    id: str
    token: str
    kind: Kind
    user: User
    channel: Channel
    began: float
    world: World
    clicked: Message | None = None
    answer: Answer | None = None
    answered_after: float | None = None
    message: Message | None = None
    arguments: Mapping[str, object] = field(default_factory=dict)
    choices: list[Json] = field(default_factory=list)
    followups: list[Message] = field(default_factory=list)
    late: int = 0

    @property
    def is_deferred(self) -> bool:
        return self.answer in (Answer.DEFERRED_MESSAGE, Answer.DEFERRED_UPDATE)

    @property
    def is_ephemeral(self) -> bool:
        return self.message is not None and self.message.is_ephemeral

    @property
    def text(self) -> str:
        """What the person reads as the answer now."""
        return self.message.text if self.message and not self.message.is_deleted else ""

    @property
    def texts(self) -> list[str]:
        """All that the answer has said, and the follow-ups after it."""
        first = self.message.texts if self.message and self.message is not self.clicked else []
        return [each for each in first if each] + [each.text for each in self.followups]

    @property
    def has_failed(self) -> bool:
        """The person reads that the interaction failed."""
        return self.answer is None and _is_past(self, FIRST_ANSWER_WITHIN)

    @property
    def is_deleted(self) -> bool:
        return self.message is not None and self.message.is_deleted

    async def answered(self, seconds: float = 10.0) -> Answer:
        """Wait for the first answer, be it that the bot thinks; raises `TimeoutError`."""
        await self.world.until(lambda: self.answer is not None, seconds)
        assert self.answer is not None
        return self.answer

    async def said(self, seconds: float = 10.0) -> str:
        """Wait for words: those that stand there at last, or of the newest follow-up."""
        await self.world.until(lambda: self.texts, seconds)
        return self.texts[-1]

    async def choice_names(self, seconds: float = 10.0) -> list[str]:
        """Wait for what a completion offers."""
        await self.answered(seconds)
        return [str(each["name"]) for each in self.choices]


@dataclass
class Desk:
    """Takes the bot's answers."""

    world: World
    postings: Postings
    bot: User
    new_token: Callable[[], str]
    all: dict[str, Interaction] = field(default_factory=dict)

    def begin(
        self, kind: Kind, user: User, channel: Channel, clicked: Message | None = None
    ) -> Interaction:
        began = self.world.monotonic()
        found = Interaction(
            self.world.new_id(), self.new_token(), kind, user, channel, began, self.world, clicked
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
        found.answered_after = self.world.monotonic() - found.began
        self.world.has_changed()
        return self._receipt(found, answer)

    def _apply(self, found: Interaction, answer: Answer, data: Json, files: list[File]) -> None:
        if answer is Answer.CHOICES:
            _check_choices(data.get("choices", []))
            found.choices = list(data.get("choices", []))
        elif answer is Answer.DEFERRED_UPDATE:
            found.message = found.clicked
        elif answer is Answer.UPDATE:
            assert found.clicked is not None
            self.postings.change(found.clicked, data, files)
            found.message = found.clicked
        elif answer is Answer.DEFERRED_MESSAGE:
            found.message = self._thinking(found, data)
        else:
            found.message = self._post(found, data, files)

    def _thinking(self, found: Interaction, data: Json) -> Message:
        flags = LOADING | int(data.get("flags") or 0) & EPHEMERAL
        at, id_ = self.world.now(), self.world.new_id()
        message = Message(id_, found.channel, self.bot, at, flags=flags, interaction_id=found.id)
        self.postings.publish(message)
        return message

    def _post(self, found: Interaction, body: Json, files: Sequence[File]) -> Message:
        check_message(body)
        message = self.postings.draft(found.channel, self.bot, body, files)
        message.interaction_id = found.id
        self.postings.publish(message)
        return message

    def _receipt(self, found: Interaction, answer: Answer) -> Json:
        told: Json = {"id": found.id, "type": int(found.kind)}
        body: Json = {"interaction": told}
        if found.message is not None:
            told["response_message_id"] = found.message.id
            told["response_message_loading"] = found.message.is_loading
            told["response_message_ephemeral"] = found.message.is_ephemeral
            message = self.postings.papers.message(found.message)
            body["resource"] = {"type": int(answer), "message": message}
        return body

    def with_token(self, token: str) -> Interaction:
        """Raises `Refused` where the token is too old, or was never answered with."""
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
        """The first after a deferred answer takes its place."""
        found = self.with_token(token)
        if found.message is not None and found.message.is_loading:
            self.postings.change(found.message, body, files)
            return found.message
        message = self._post(found, body, files)
        found.followups.append(message)
        self.world.has_changed()
        return message

    def change(self, token: str, name: str, body: Json, files: Sequence[File]) -> Message:
        message = self.message(token, name)
        self.postings.change(message, body, files)
        return message

    def delete(self, token: str, name: str) -> None:
        self.postings.delete(self.message(token, name), self.bot)


def _is_past(interaction: Interaction, seconds: float) -> bool:
    return interaction.world.monotonic() - interaction.began > seconds


def _answer(kind: Kind, number: object) -> Answer:
    for each in _MEANT_FOR[kind]:
        if each == number:
            return each
    message = "The specified interaction response type is invalid."
    raise Form.of("type", "INTERACTION_RESPONSE_TYPE_INVALID", message)


def _check_choices(choices: list[Json]) -> None:
    form = Form()
    form.at_most("data.choices", choices, 25)
    for number, choice in enumerate(choices):
        form.between(f"data.choices.{number}.name", choice.get("name"), 1, 100)
        form.at_most(f"data.choices.{number}.value", choice.get("value"), 100)
    form.check()
