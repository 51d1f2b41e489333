"""What may come of a question to the owner, in the words of its card and for the model."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from ollim_bot.domain.cards import Color
from ollim_bot.domain.moments import duration_in_words
from ollim_bot.domain.tool_policy import Pattern

OVER = "This question is over: nothing waits for an answer to it any more."
NOT_KEPT = "This could not be written down, so nothing is allowed yet. Allow it once, or refuse."


@dataclass(frozen=True, slots=True)
class Outcome:
    """`said` stands on the card; `refusal` is for the model, None where the call is made."""

    said: str
    color: Color
    refusal: str | None = None


ONCE = Outcome("Allowed once.", Color.GREEN)
REFUSED = Outcome(
    "Refused.",
    Color.RED,
    "The owner said no to this call. Do not try the same in another way: go on without it, or ask "
    "what to do instead.",
)
NOT_NEEDED = Outcome(
    "No longer needed.",
    Color.BLUE,
    "The owner went on to something else before answering, so this call was not made.",
)
NOT_ASKED = Outcome(
    "Refused: this question could not be shown.",
    Color.RED,
    "The owner could not be asked, so this call was not made. Go on without it, and say so.",
)
DEAD = Outcome("Expired: nothing waits for this answer any more.", Color.BLUE)


def from_now_on(grant: Pattern) -> Outcome:
    return Outcome(f"Allowed from now on: `{grant}`", Color.GREEN)


def expired(seconds: float) -> Outcome:
    length = duration_in_words(timedelta(seconds=seconds))
    refusal = (
        f"Nobody answered in {length}, so this call was not made. Go on without it, and say what "
        "is still to be done."
    )
    return Outcome(f"Expired: no answer in {length}.", Color.BLUE, refusal)


def too_late(grant: Pattern) -> str:
    return f"That came too late for this call. From now on, `{grant}` is allowed."
