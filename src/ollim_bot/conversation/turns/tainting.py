"""Which untrusted text a turn has before it: from the owner's newest words until the next ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from ollim_bot.conversation.chat_log import ChatLog
from ollim_bot.conversation.inbox import DurableInbox
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.inputs import Asked, InputId, OwnerMessage
from ollim_bot.domain.taint import Taint, Untrusted, addresses_in

# In how many of their messages the owner may have typed an address.
_REMEMBERED = 100


class Tainting:
    """The log tells what the owner sent last, so a restart does not end it."""

    def __init__(self, chat: ChatLog, inbox: DurableInbox) -> None:
        self._chat = chat
        self._inbox = inbox

    def of(self, asked: Sequence[Asked]) -> Taint | None:
        """None where the turn answers the owner's own words alone, or what came after them."""
        messages = [each for each in asked if isinstance(each, OwnerMessage)]
        found = [*_untrusted(messages)]
        if all(each.button for each in messages):
            found += self._standing()
        if not found:
            return None
        typed = (each.text for each in self._chat.newest_first() if each.is_typed)
        addresses = frozenset(
            one for text in islice(typed, _REMEMBERED) for one in addresses_in(text)
        )
        return Taint(tuple(dict.fromkeys(each.source for each in found)), addresses)

    def _standing(self) -> Iterator[Untrusted]:
        """What a turn that nobody wrote a message for comes after."""
        for message in self._chat.newest_first():
            if self._inbox.state.waits(InputId(message.id)):
                continue
            quote = self._untrusted_quote(message)
            if message.is_typed and quote is None:
                return
            yield from filter(None, (message.untrusted, quote))

    def _untrusted_quote(self, message: ChatMessage) -> Untrusted | None:
        quoted = self._chat.recent(message.reply_to) if message.reply_to else None
        return quoted.untrusted if quoted is not None and message.is_typed else None


def _untrusted(messages: Sequence[OwnerMessage]) -> Iterator[Untrusted]:
    for each in messages:
        yield from filter(None, (each.untrusted_quote, each.untrusted))
