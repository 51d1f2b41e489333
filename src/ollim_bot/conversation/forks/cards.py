"""The cards and notes that show a fork to the owner, who knows it as a side conversation."""

from __future__ import annotations

from datetime import timedelta

from ollim_bot.domain.cards import Button, ButtonStyle, Card, Color
from ollim_bot.domain.forks import TOPIC, Discard, Fork, ForkExit, Report, Save, end_title
from ollim_bot.domain.text import shortened

_LONGEST_TOPIC = 300
_LONGEST_SUMMARY = 1000

SEPARATE = "What is said here stays separate from the main conversation."
ALREADY_OPEN = "You are in a side conversation already. Leave it first, or keep what it brought."
NOTHING_ANSWERED = "Nothing has been answered here yet, so there is nothing to keep."
EXPIRED = "this session has expired — starting fresh with quoted context"
LOST = "What was said here before could not be found, so this side conversation begins anew."
TAKEN_HERE = "You are in a side conversation, so your reply is taken here, with what it quotes."


def entry_card(fork: Fork, wanted_model: str | None) -> Card:
    lines = [f"{TOPIC}{_cut(fork.topic, _LONGEST_TOPIC)}" if fork.topic else SEPARATE]
    if fork.model is not None:
        lines.append(f"The history does not fit into {wanted_model}, so {fork.model} answers here.")
    return Card("Side conversation", "\n".join(lines), Color.PURPLE, buttons=ways_out(fork))


def ways_out(fork: Fork) -> tuple[Button, ...]:
    keep_all = Button("Keep all of it", "fork_save", style=ButtonStyle.SUCCESS)
    return (
        *([keep_all] if fork.may_become_main else []),
        Button("Keep a summary", "fork_report", style=ButtonStyle.PRIMARY),
        Button("Leave it", "fork_exit", style=ButtonStyle.DANGER),
    )


def end_card(how: ForkExit) -> Card:
    return Card(end_title(how), _what_became(how), Color.PURPLE)


def confirm_card(fork: Fork) -> Card:
    return Card(
        "Keep all of this side conversation?",
        "It becomes the main conversation. The one before it stays in `/sessions`.",
        Color.PURPLE,
        buttons=(
            Button("Go on talking", "fork_save_dismiss", fork.id),
            Button("Keep all of it", "fork_save_confirm", fork.id, ButtonStyle.SUCCESS),
        ),
    )


def refused_card(fork: Fork, obstacle: str) -> Card:
    return Card(
        "Not kept yet",
        f"This side conversation cannot become the main one: {obstacle}. "
        "A summary of it can be kept instead.",
        Color.YELLOW,
        buttons=(Button("Keep a summary", "fork_report", fork.id, ButtonStyle.PRIMARY),),
    )


def idle_note(limit: timedelta) -> str:
    minutes = max(1, int(limit.total_seconds() // 60))
    span = "a minute" if minutes == 1 else f"{minutes} minutes"
    return f"Nothing was said here for {span}. After {span} more, a summary is kept and it ends."


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
