"""The page to look at by hand, with a made-up conversation: `python -m tests.web.demo [port]`."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from datetime import UTC
from pathlib import Path

from tests.web.scene import Scene, make_scene

from ollim_bot.clock import SystemClock
from ollim_bot.domain.cards import Button, ButtonStyle, Card, CardField
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.events import (
    Noted,
    TextStreamed,
    ThinkingStreamed,
    ToolEnded,
    ToolFailed,
    ToolRefused,
    ToolStarted,
)

ANSWER = """\
Here is what I found about **{asked}**:

1. The first thing, with `code` and a [link](https://example.org).
2. The second thing.

| when | what |
|------|-----:|
| 9:00 | tea |
| 15:00 | dentist |

- [x] done already
- [ ] still to do

```python
def hello(name: str) -> str:
    return f"Hello {{name}}"
```

> And that is all. See https://example.org/more.
"""


CARD = Card(
    "Two tasks are due today",
    "The **dentist** needs an answer; the rest can wait.",
    fields=(
        CardField("Due", "today 15:00", inline=True),
        CardField("Project", "Home", inline=True),
        CardField("Notes", "Ask about the [bill](https://example.org)."),
    ),
    buttons=(
        Button("Mark as done", "agent", "1", ButtonStyle.PRIMARY),
        Button("Snooze for an hour", "agent", "2"),
    ),
)


class Demo:
    """Answers every message with the same text, slowly, word by word."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._tasks: set[asyncio.Task[None]] = set()
        scene.reception.on_message = self._answer_later

    def _answer_later(self, message: ChatMessage) -> None:
        task = asyncio.create_task(self._answer(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, message: ChatMessage) -> None:
        reception = self._scene.reception
        await reception.change(is_busy=True)
        turn = reception.begin(message.id)
        await turn.show(Noted("catching up on background activity..."), ThinkingStreamed("hm"))
        await asyncio.sleep(1)
        await turn.show(ToolStarted("1", "Read", {"file_path": "/home/ada/notes/today.md"}))
        await turn.show(ToolStarted("2", "Bash", {"command": "ls -la"}))
        await asyncio.sleep(0.5)
        await turn.show(ToolEnded("1"), ToolRefused("2", "Bash", "not allowed here"))
        await turn.show(ToolStarted("3", "WebFetch", {"url": "https://example.org"}))
        await asyncio.sleep(0.3)
        await turn.show(ToolFailed("3", "it could not be reached"))
        answer = ANSWER.format(asked=message.text or "your file")
        for start in range(0, len(answer), 6):
            if turn.is_over:
                break
            await turn.show(TextStreamed(answer[start : start + 6]))
            await asyncio.sleep(0.04)
        await turn.end(answer)
        await reception.change(is_busy=False)


async def main(port: int, folder: Path) -> None:
    scene = make_scene(folder, clock=SystemClock(UTC), port=port)
    _ = Demo(scene)
    await scene.reception.say("Good morning. Three things are due today.")
    await scene.reception.say("Drink water.", Author.BACKGROUND, job="Water")
    await scene.reception.say(CARD.text, Author.BACKGROUND, card=CARD, job="Morning briefing")
    await scene.reception.say("The bot was restarted.", Author.PROGRAM)
    print(scene.surface.address(), flush=True)
    await scene.surface.run(scene.reception)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 8421, Path(place)))
