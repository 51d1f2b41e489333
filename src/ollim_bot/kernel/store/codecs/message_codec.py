"""The messages of the conversation as JSON."""

from __future__ import annotations

from ollim_bot.kernel.store.codecs.plain import JsonFormat, Layout, lines_of
from ollim_bot.kernel.values.cards import Button, Card, CardField, CardLine
from ollim_bot.kernel.values.chat import Attachment, ChatMessage, TurnCost

LAYOUTS = {
    ChatMessage: Layout(first=("at",)),
    Attachment: Layout("an attachment"),
    TurnCost: Layout(needed=("cost_usd", "context")),
    Card: Layout(first=("title", "color"), needed=("color",)),
    CardField: Layout("a field of a card", full=True),
    CardLine: Layout("a line of a card", full=True),
    Button: Layout("a button of a card", always=("data", "is_used"), needed=("style",)),
}
MESSAGES = JsonFormat(LAYOUTS)
CHAT_MESSAGES = lines_of(ChatMessage, MESSAGES)
