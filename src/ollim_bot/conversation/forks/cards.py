"""The cards and notes that show a fork to the owner."""

from __future__ import annotations

from datetime import timedelta

from ollim_bot.domain.cards import Button, ButtonStyle, Card, Color
from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.forks import Discard, Fork, ForkExit, Report, Save, end_title
from ollim_bot.domain.text import shortened

_CARD = "fork-"
_LONGEST_TOPIC = 300
_LONGEST_SUMMARY = 1000

SEPARATE = "What is said here stays separate from the main conversation."
ALREADY_OPEN = "You are in a fork already. End it first: save it, report it, or exit."
NOTHING_ANSWERED = "Nothing has been answered in this fork yet, so there is nothing to report."
EXPIRED = "this session has expired — starting fresh with quoted context"
LOST = "What was said here before could not be found, so this fork begins anew."
TAKEN_HERE = "You are in a fork, so your reply is taken here, with what it quotes."


def entry_id(fork_id: str) -> MessageId:
    return MessageId(f"{_CARD}{fork_id}")


def fork_of(message_id: MessageId) -> str:
    """The id of the fork whose entry card has this message id."""
    return message_id.removeprefix(_CARD)


def entry_card(fork: Fork, wanted_model: str | None) -> Card:
    lines = [f"Topic: {_cut(fork.topic, _LONGEST_TOPIC)}" if fork.topic else SEPARATE]
    if fork.model is not None:
        lines.append(f"The history does not fit into {wanted_model}, so {fork.model} answers here.")
    return Card(
        "Forked Session",
        "\n".join(lines),
        Color.PURPLE,
        buttons=(
            Button("Save Context", "fork_save", style=ButtonStyle.SUCCESS),
            Button("Report", "fork_report", style=ButtonStyle.PRIMARY),
            Button("Exit Fork", "fork_exit", style=ButtonStyle.DANGER),
        ),
    )


def end_card(how: ForkExit) -> Card:
    return Card(end_title(how), _what_became(how), Color.PURPLE)


def confirm_card(fork: Fork) -> Card:
    return Card(
        "Save this fork?",
        "It becomes the main conversation. The one before it stays in `/sessions`.",
        Color.PURPLE,
        buttons=(
            Button("Keep Talking", "fork_save_dismiss", fork.id),
            Button("Save Context", "fork_save_confirm", fork.id, ButtonStyle.SUCCESS),
        ),
    )


def refused_card(fork: Fork, obstacle: str) -> Card:
    return Card(
        "Not saved",
        f"This fork cannot become the main conversation: {obstacle}. "
        "A report hands over a summary instead.",
        Color.YELLOW,
        buttons=(Button("Report", "fork_report", fork.id, ButtonStyle.PRIMARY),),
    )


def idle_note(limit: timedelta) -> str:
    minutes = max(1, int(limit.total_seconds() // 60))
    span = "a minute" if minutes == 1 else f"{minutes} minutes"
    return f"Nothing was said in this fork for {span}. After {span} more it ends with a summary."


def _what_became(how: ForkExit) -> str:
    match how:
        case Save():
            return "This is the main conversation now."
        case Report(summary):
            return _cut(summary, _LONGEST_SUMMARY)
        case Discard():
            return "You are back in the main conversation, which knows nothing of it."


def _cut(text: str, longest: int) -> str:
    line = " ".join(text.split())
    return shortened(line, longest)
