"""What a tab sees of a turn while it runs: the events of the turn, folded into one value."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ollim_bot.domain.activity import Activity
from ollim_bot.domain.events import AgentEvent, TextCompleted, TextStreamed, TextWithdrawn
from ollim_bot.surfaces.web.drafts import Draft


@dataclass(frozen=True, slots=True)
class Live:
    """`done` is the HTML of the pieces of the answer that are whole; `draft` is the next one."""

    done: tuple[str, ...] = ()
    streamed: str = ""
    draft: Draft = field(default_factory=Draft)
    activity: Activity = field(default_factory=Activity)

    def after(self, event: AgentEvent) -> Live:
        live = replace(self, activity=self.activity.after(event))
        match event:
            case TextStreamed(text=text):
                return replace(live, streamed=self.streamed + text, draft=self.draft.added(text))
            case TextWithdrawn():
                return replace(live, streamed="", draft=Draft())
            case TextCompleted(text=text):
                whole = (self.draft if text == self.streamed else Draft(rest=text)).settled()
                done = (*self.done, *whole.blocks, whole.tail())
                return replace(live, done=done, streamed="", draft=Draft())
            case _:
                return live

    def settled(self) -> Live:
        draft = self.draft.settled()
        return self if draft is self.draft else replace(self, draft=draft)

    def has_same_text(self, other: Live) -> bool:
        return (self.done, self.draft) == (other.done, other.draft)

    @property
    def blocks(self) -> tuple[str, ...]:
        return (*self.done, *self.draft.blocks)
