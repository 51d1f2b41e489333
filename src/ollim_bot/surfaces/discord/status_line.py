"""The draft text of a running turn, with the lines that say what it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ollim_bot.domain.activity import THINKING, Activity, ToolLine, ToolState
from ollim_bot.domain.events import AgentEvent, TextCompleted, TextStreamed, TextWithdrawn
from ollim_bot.surfaces.discord.rendering import FORK, one_line, small, without_markup
from ollim_bot.surfaces.discord.split import LONGEST, Pieces, split
from ollim_bot.surfaces.discord.tables import with_tables

WORKING = "Working…"

_MOST_LINES = 4
_MOST_NOTES = 2
_LONGEST_LABEL = 112
_LONGEST_REASON = 100
_BETWEEN = "\n\n"


@dataclass(frozen=True, slots=True)
class LiveText:
    """The events of a turn so far, folded.

    `whole` is the completed text, `text` also has what streams after it: the same words as in the
    final answer.
    """

    whole: Pieces = field(default_factory=Pieces)
    text: Pieces = field(default_factory=Pieces)
    is_streaming: bool = False
    activity: Activity = field(default_factory=Activity)

    def after(self, event: AgentEvent) -> LiveText:
        live = replace(self, activity=self.activity.after(event))
        match event:
            case TextStreamed(text=text):
                return live._with_more(text)
            case TextWithdrawn():
                return replace(live, text=live.whole, is_streaming=False)
            case TextCompleted(text=text):
                whole = _followed(live.whole, text.strip())
                return replace(live, whole=whole, text=whole, is_streaming=False)
            case _:
                return live

    @property
    def source(self) -> str:
        """The text so far, as it was written."""
        return "".join(piece.source for piece in self.text.done) + self.text.rest

    @property
    def shown(self) -> tuple[str, ...]:
        """The text in pieces of 2000 characters at most, with its tables drawn."""
        source = self.source
        drawn = with_tables(source)
        return self.text.shown if drawn == source else split(drawn)

    def _with_more(self, text: str) -> LiveText:
        if self.is_streaming:
            return replace(self, text=self.text.added(text))
        begin = text.lstrip()
        return replace(self, text=_followed(self.whole, begin), is_streaming=bool(begin))


def pieces(live: LiveText, elapsed_seconds: float, in_fork: bool = False) -> tuple[str, ...]:
    """What each draft shows now, of 2000 characters at most; at least one."""
    *before, last = live.shown or ("",)
    phase = _phase(live.activity, is_silent=not last)
    head = [small(f"{phase}{_in_brackets(elapsed_seconds)}")] if phase else []
    foot = [small(FORK)] if in_fork else []
    return (*before, *_with_block(last, head, _details(live.activity), foot))


def elapsed(seconds: float) -> str:
    """`3s`, `1m 05s`, `2h 05m`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02}m"


def _followed(pieces: Pieces, text: str) -> Pieces:
    if not text:
        return pieces
    is_first = not pieces.done and not pieces.rest
    return pieces.added(text if is_first else _BETWEEN + text)


def _phase(activity: Activity, *, is_silent: bool) -> str:
    """The phase in words; empty while the growing text itself shows progress."""
    if activity.phase:
        return activity.phase
    if any(line.state is ToolState.RUNNING for line in activity.tools):
        return WORKING
    return THINKING if is_silent else ""


def _in_brackets(seconds: float) -> str:
    return "" if seconds < 1 else f" ({elapsed(seconds)})"


def _with_block(
    text: str, head: Sequence[str], details: Sequence[str], foot: Sequence[str]
) -> Iterator[str]:
    """The text with the lines below it: as many details as fit, and head and foot always.

    If head and foot do not fit, the lines become a draft of their own.
    """
    for begin in range(len(details) + 1):
        lines = [text, *head, *details[begin:], *foot] if text else [*head, *details[begin:], *foot]
        shown = "\n".join(lines)
        if len(shown) <= LONGEST:
            yield shown
            return
    yield text
    yield from _with_block("", head, details, foot)


def _details(activity: Activity) -> list[str]:
    notes = activity.notes[-_MOST_NOTES:]
    tools = _most_telling(activity.tools, _MOST_LINES - len(notes))
    return [
        *(small(without_markup(one_line(note, _LONGEST_LABEL))) for note in notes),
        *(small(_tool(line)) for line in tools),
    ]


def _most_telling(tools: Sequence[ToolLine], most: int) -> list[ToolLine]:
    """The last tools; running ones come before finished ones."""
    order = sorted(range(len(tools)), key=lambda at: (tools[at].state is ToolState.RUNNING, at))
    return [tools[at] for at in sorted(order[-most:])]


def _tool(line: ToolLine) -> str:
    label = without_markup(one_line(line.label, _LONGEST_LABEL))
    reason = without_markup(one_line(line.reason, _LONGEST_REASON))
    match line.state:
        case ToolState.RUNNING:
            return f"{label} …"
        case ToolState.DONE:
            return f"{label} ✓"
        case ToolState.REFUSED:
            return f"~~{label}~~ {reason}".rstrip()
        case ToolState.FAILED:
            return f"{label} failed: {reason}" if reason else f"{label} failed"
